"""The life of a rendition, of the slices it is encoded in, and of the plan that groups renditions."""

from __future__ import annotations

from enum import StrEnum

from vodpress.domain.lifecycle import Lifecycle


class RenditionState(StrEnum):
    """Where one rung of one plan stands."""

    PENDING = "pending"
    ENCODING = "encoding"
    STITCHING = "stitching"
    COMPLETED = "completed"
    FAILED = "failed"
    WAIVED = "waived"


class SliceState(StrEnum):
    """Where one slice of one rendition stands. `encoding` is held under a lease."""

    PENDING = "pending"
    ENCODING = "encoding"
    COMPLETED = "completed"


class PlanState(StrEnum):
    """Where the renditions of one plan stand as a whole."""

    ENCODING = "encoding"
    PACKAGING = "packaging"
    PUBLISHED = "published"
    FAILED = "failed"


RENDITION = Lifecycle(
    name="renditions",
    initial=RenditionState.PENDING,
    moves={
        RenditionState.PENDING: {
            RenditionState.ENCODING: "a worker claimed the first slice",
            RenditionState.COMPLETED: "a verified copy of the same encode was there already",
            RenditionState.FAILED: "the source cannot be encoded",
        },
        RenditionState.ENCODING: {
            RenditionState.STITCHING: "the last slice was recorded; stitch is enqueued in the same transaction",
            RenditionState.COMPLETED: "its only slice was recorded",
            RenditionState.FAILED: "a slice ran out of attempts or can never succeed",
        },
        RenditionState.STITCHING: {
            RenditionState.COMPLETED: "the stitched rendition was verified and recorded",
            RenditionState.FAILED: "stitching ran out of attempts",
        },
        RenditionState.COMPLETED: {},
        RenditionState.WAIVED: {},
        RenditionState.FAILED: {
            RenditionState.ENCODING: "a person asked for another try; recorded slices are kept",
            RenditionState.STITCHING: "a person asked for another try, and every slice is recorded",
            RenditionState.WAIVED: "a person decided to go on without it",
        },
    },
)

SLICE = Lifecycle(
    name="slices",
    initial=SliceState.PENDING,
    moves={
        SliceState.PENDING: {SliceState.ENCODING: "a worker claimed it under a lease"},
        SliceState.ENCODING: {
            SliceState.PENDING: "the attempt failed, was handed back or was superseded",
            SliceState.COMPLETED: "the output was stored, verified and recorded under the live lease",
        },
        SliceState.COMPLETED: {},
    },
)

PLAN = Lifecycle(
    name="plans",
    initial=PlanState.ENCODING,
    moves={
        PlanState.ENCODING: {
            PlanState.PACKAGING: "the last rendition completed or was waived; package is enqueued with it",
            PlanState.FAILED: "packaging a part ran out of attempts, or a person gave the plan up",
        },
        PlanState.PACKAGING: {
            PlanState.PUBLISHED: "the manifest of all its renditions is written",
            PlanState.FAILED: "packaging ran out of attempts, or a person gave the plan up",
        },
        PlanState.PUBLISHED: {},
        PlanState.FAILED: {
            PlanState.ENCODING: "a person asked for another try; recorded work is kept",
            PlanState.PACKAGING: "a person asked for another try at packaging",
        },
    },
)
