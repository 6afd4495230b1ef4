"""The life of an asset."""

from __future__ import annotations

from enum import StrEnum

from vodpress.domain.lifecycle import Lifecycle


class AssetState(StrEnum):
    """Where an asset stands. A published asset stays `ready` while it is encoded again with another ladder."""

    CREATED = "created"
    UPLOADING = "uploading"
    PROCESSING = "processing"
    READY = "ready"
    ERRORED = "errored"


ASSET = Lifecycle(
    name="assets",
    initial=AssetState.CREATED,
    moves={
        AssetState.CREATED: {
            AssetState.UPLOADING: "the first byte arrived",
            AssetState.PROCESSING: "the source is whole and verified; ingest is enqueued in the same transaction",
            AssetState.ERRORED: "the upload was refused or expired",
        },
        AssetState.UPLOADING: {
            AssetState.PROCESSING: "the source is whole and verified; ingest is enqueued in the same transaction",
            AssetState.ERRORED: "the upload was refused or expired",
        },
        AssetState.PROCESSING: {
            AssetState.READY: "the first manifest is published",
            AssetState.ERRORED: "the source cannot be processed, or a person gave it up",
        },
        AssetState.READY: {},
        AssetState.ERRORED: {
            AssetState.PROCESSING: "a person asked for another try",
        },
    },
)
