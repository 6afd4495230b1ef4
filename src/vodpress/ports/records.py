"""Rows of the domain tables as the stages see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vodpress.domain.asset import AssetState
from vodpress.domain.ladder import Ladder
from vodpress.domain.manifest import contents_of
from vodpress.domain.media import Probe
from vodpress.domain.node_health import NodeState
from vodpress.domain.plan import Plan
from vodpress.domain.publication import Contents, PublishPolicy
from vodpress.domain.rendition import PlanState, RenditionState, SliceState


@dataclass(frozen=True, slots=True)
class NewAsset:
    """An asset whose source is whole: what an upload leaves behind."""

    id: str
    tenant: str
    title: str
    passthrough: str
    source_sha256: str
    source_bytes: int
    source_key: str


@dataclass(frozen=True, slots=True)
class AssetRecord:
    """A row of `assets`. Times are ISO 8601, UTC."""

    id: str
    tenant: str
    state: AssetState
    title: str
    passthrough: str
    source_sha256: str | None
    source_bytes: int | None
    source_key: str | None
    probe: Probe | None
    reason_code: str | None
    reason_message: str | None
    live_version: int | None
    held: bool
    created_at: str
    ready_at: str | None


@dataclass(frozen=True, slots=True)
class NewRendition:
    """A rendition to make. `weight` is pixels × frames; `rung_hash` covers all its bytes depend on but the source."""

    name: str
    kind: str
    required: bool
    rung_hash: str
    slices: int
    weight: float


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A row of `plans`.

    Attributes:
        publish: what must be there before it is published.
        early_rung: the rung that is encoded by itself before the others.
        images: what thumbnails left, paths and checksums, or `None`.
        source_key, source_sha256: the source that the plan was made for; the asset may have another one by now.
    """

    id: int
    asset_id: str
    tenant: str
    plan_hash: str
    ladder_name: str
    ladder: Ladder | None
    plan: Plan
    publish: PublishPolicy
    early_rung: str | None
    bulk: bool
    state: PlanState
    renditions_open: int
    images_state: str
    images: Mapping[str, Any] | None
    prefix: str
    source_key: str
    source_sha256: str


@dataclass(frozen=True, slots=True)
class RenditionRecord:
    """A row of `renditions`."""

    id: int
    plan_id: int
    name: str
    kind: str
    required: bool
    state: RenditionState
    slices_open: int
    weight: float
    key: str | None
    sha256: str | None
    frames: int | None
    reason_code: str | None


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """A row of `slices`."""

    rendition_id: int
    index: int
    state: SliceState
    attempt: int
    lease: str | None
    key: str | None
    sha256: str | None
    frames: int | None


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """An object that was verified and stored, to be recorded."""

    key: str
    bytes: int
    sha256: str
    frames: int


@dataclass(frozen=True, slots=True)
class NewPlan:
    """A plan to add, with the renditions to make."""

    asset_id: str
    plan_hash: str
    source_sha256: str
    source_key: str
    ladder: Ladder
    plan: Plan
    publish: PublishPolicy
    early_rung: str | None
    bulk: bool
    renditions: Sequence[NewRendition]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A version that is being made: its number and what it holds, the same for every attempt."""

    version: int
    contents: Contents


@dataclass(frozen=True, slots=True)
class EncodeSpeed:
    """How fast one encode job was.

    Attributes:
        comparable: kind, codec and preset: only jobs that have these in common say something of each other.
        work: pixels × frames, over all rungs (audio: samples / 100).
    """

    comparable: str
    work: float
    wall_seconds: float
    cpu_seconds: float
    media_seconds: float
    node: str

    @property
    def rate(self) -> float:
        """Work done a second."""
        return self.work / self.wall_seconds


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A row of `nodes`. Times are ISO 8601, UTC."""

    name: str
    state: NodeState
    reason: str
    since: str


@dataclass(frozen=True, slots=True)
class ManifestRecord:
    """A published version of an asset."""

    asset_id: str
    version: int
    plan_hash: str
    prefix: str
    document: Mapping[str, Any]

    @property
    def contents(self) -> Contents:
        """What the version holds."""
        return contents_of(self.document)


@dataclass(frozen=True, slots=True)
class DeadLetterRecord:
    """Work that waits for a person's decision."""

    id: int
    asset_id: str
    job_kind: str
    job_args: Mapping[str, Any]
    kind: str
    code: str
    message: str
    detail: str
    traceback: str
    attempts: int
    created_at: str
    resolution: str | None
    resolved_at: str | None
    decided_by: str | None
    decided_why: str | None

    @property
    def plan_id(self) -> int | None:
        """The plan that its work belongs to; `None` before there was one."""
        plan_id = self.job_args.get("plan_id")
        return None if plan_id is None else int(plan_id)


@dataclass(frozen=True, slots=True)
class LiveJobs:
    """The jobs of an asset that are not settled, counted: running, waiting for a worker, waiting for their time.

    The last failure is that of the newest attempt that failed, of jobs that are still live.
    """

    running: int
    waiting: int
    delayed: int
    last_failure_kind: str | None
    last_failure_code: str | None
    last_failure_message: str | None

    @property
    def total(self) -> int:
        """All of them."""
        return self.running + self.waiting + self.delayed
