"""The domain tables inside a transaction. Every change of state is guarded; a result needs the live lease."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from vodpress.domain.asset import AssetState
from vodpress.domain.deadletter import Cause, Resolution
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim
from vodpress.domain.media import Probe
from vodpress.domain.node_health import NodeState
from vodpress.domain.progress import AssetProgress
from vodpress.domain.publication import Contents, PublishPolicy
from vodpress.domain.rendition import PlanState
from vodpress.ports.records import (
    AssetRecord,
    DeadLetterRecord,
    EncodeSpeed,
    ManifestRecord,
    NewAsset,
    NewPlan,
    NodeRecord,
    PlanRecord,
    RenditionRecord,
    Reservation,
    SliceRecord,
    StoredOutput,
)


class Assets(Protocol):
    """Rows of `assets`."""

    async def add(self, asset: NewAsset) -> bool:
        """Insert in state `created`. False, and no change, when the same source is an asset already."""
        ...

    async def get(self, asset_id: str, *, lock: bool = False) -> AssetRecord | None:
        """The asset; with `lock`, other transactions that lock it wait until this one ends."""
        ...

    async def by_source(self, *, tenant: str, sha256: str, passthrough: str) -> AssetRecord | None:
        """The asset made from these bytes."""
        ...

    async def move(
        self,
        asset_id: str,
        target: AssetState,
        *,
        reason: Failure | None = None,
        live_version: int | None = None,
    ) -> bool:
        """Guarded change of state; False when the asset is in no state that may become `target`."""
        ...

    async def set_probe(self, asset_id: str, probe: Probe) -> None:
        """Record what ingest learned."""
        ...

    async def set_live_version(self, asset_id: str, version: int, *, plan_id: int) -> bool:
        """Make a newer version of a ready asset the live one; False for an older one, and for one of a held plan."""
        ...

    async def hold_version(self, asset_id: str, version: int, *, hold: bool) -> bool:
        """Make any version of a ready asset the live one; with `hold`, none of a plan that is there replaces it."""
        ...

    async def replace_source(self, asset_id: str, *, sha256: str, size: int, key: str) -> bool:
        """Give an asset another source; what was learned of the old one is forgotten. False when that is taken."""
        ...

    async def list(self, *, limit: int) -> Sequence[AssetRecord]:
        """The newest assets."""
        ...

    async def starting_with(self, beginning: str) -> Sequence[str]:
        """Ids of at most two assets whose id begins so; the one that is exactly it comes first."""
        ...

    async def delete(self, asset_id: str) -> bool:
        """Remove the asset and every row below it; its jobs are cancelled by the caller."""
        ...

    async def source_is_used(self, source_key: str) -> bool:
        """Whether any asset still needs this source object."""
        ...


class Plans(Protocol):
    """Rows of `plans`, `renditions` and `slices`."""

    async def add(self, new: NewPlan) -> int | None:
        """Insert a plan with its renditions and slices; `None` when the asset has this plan for this source already."""
        ...

    async def get(self, plan_id: int, *, lock: bool = False) -> PlanRecord | None:
        """The plan; with `lock`, other transactions that lock it wait until this one ends."""
        ...

    async def by_hash(self, asset: AssetRecord, plan_hash: str, *, lock: bool = False) -> PlanRecord | None:
        """The plan with this hash for the asset's source."""
        ...

    async def of_asset(self, asset_id: str) -> Sequence[PlanRecord]:
        """Every plan of an asset, oldest first."""
        ...

    async def move(self, plan_id: int, target: PlanState) -> bool:
        """Guarded change of state."""
        ...

    async def renditions(self, plan_id: int) -> Sequence[RenditionRecord]:
        """The renditions in ladder order, audio last."""
        ...

    async def slices(self, rendition_id: int) -> Sequence[SliceRecord]:
        """The slices in order."""
        ...

    async def set_publish(self, plan_id: int, policy: PublishPolicy) -> None:
        """Change what must be there before it is published."""
        ...

    async def claim_slices(
        self, plan_id: int, *, names: Collection[str], index: int, claim: Claim
    ) -> Sequence[RenditionRecord]:
        """Take the slice `index` of every one of these renditions where it is not completed, under the claim as lease.

        An older lease is superseded. Renditions that were waiting become `encoding`.
        """
        ...

    async def complete_slice(self, rendition_id: int, index: int, claim: Claim, output: StoredOutput) -> int:
        """Record a slice and return how many of the rendition are still open.

        Raises:
            LeaseLost: the claim is not the live lease; nothing changed.
        """
        ...

    async def release_slices(self, claim: Claim) -> None:
        """Give up the slices held under the claim, so that another attempt may take them."""
        ...

    async def start_stitching(self, rendition_id: int) -> bool:
        """Guarded `encoding → stitching`."""
        ...

    async def complete_rendition(self, rendition_id: int, output: StoredOutput) -> int | None:
        """Record a whole rendition and return how many of the plan are still open; `None` when it was recorded before.

        The plan's row is locked, so that of two that finish at the same instant exactly one sees 0.
        """
        ...

    async def fail_rendition(self, rendition_id: int, failure: Failure) -> bool:
        """Guarded change to `failed`."""
        ...

    async def waive_rendition(self, rendition_id: int) -> bool:
        """Guarded `failed → waived`; the plan has one less to wait for."""
        ...

    async def reopen(self, plan_id: int, *, names: Collection[str] | None = None) -> None:
        """Take failed renditions, or those of them that are named, and the plan back to the work at which they failed.

        What was recorded is kept.
        """
        ...

    async def reusable(self, *, tenant: str, source_sha256: str, rung_hash: str) -> StoredOutput | None:
        """A completed rendition of the same tenant, source and rung, wherever it was made."""
        ...

    async def set_images(self, plan_id: int, images: Mapping[str, Any] | None) -> None:
        """Record the images, or with `None` that they failed."""
        ...

    async def slices_since(self, plan_id: int, moment: str) -> int:
        """How many slices of a plan were encoded and recorded since a `Transaction.moment`."""
        ...

    async def progress(self, plan_id: int) -> AssetProgress:
        """How far each rendition is."""
        ...


class Speeds(Protocol):
    """Rows of `encode_speeds`."""

    async def add(self, speed: EncodeSpeed) -> None:
        """Keep how fast a job was; only the newest of a kind are kept."""
        ...

    async def recent(self, comparable: str, *, limit: int = 50) -> Sequence[EncodeSpeed]:
        """The newest of a kind, newest first."""
        ...


class Nodes(Protocol):
    """Rows of `nodes`: those that took themselves out of service, and those that came back."""

    async def record(self, name: str, *, state: NodeState, reason: str) -> None:
        """Keep a node's state, and since when it has it."""
        ...

    async def out_of_service(self) -> Sequence[NodeRecord]:
        """Those that take no jobs now, or one on trial."""
        ...


class Manifests(Protocol):
    """Rows of `manifests`."""

    async def add(
        self, *, asset_id: str, version: int, plan_id: int, prefix: str, sha256: str, document: Mapping[str, Any]
    ) -> None:
        """Record a published version and use up the number that was reserved for it."""
        ...

    async def get(self, asset_id: str, version: int) -> ManifestRecord | None:
        """One version."""
        ...

    async def reserve_version(self, plan_id: int, contents: Contents) -> Reservation:
        """The plan's next version: a new number of the asset for `contents`, or the one that it holds unused."""
        ...

    async def of_asset(self, asset_id: str) -> Sequence[ManifestRecord]:
        """Every version of an asset, oldest first."""
        ...

    async def of_plan(self, plan_id: int) -> ManifestRecord | None:
        """The newest version made from a plan."""
        ...


class DeadLetters(Protocol):
    """Rows of `dead_letters`."""

    async def add(
        self, *, asset_id: str, kind: str, args: Mapping[str, Any], failure: Failure, traceback: str, attempts: int
    ) -> DeadLetterRecord:
        """Put work aside until a person decides."""
        ...

    async def get(self, letter_id: int, *, lock: bool = False) -> DeadLetterRecord | None:
        """One of them; with `lock`, others that decide it wait until this transaction ends."""
        ...

    async def list(
        self, *, code: str | None, asset_id: str | None, decided: bool, after: int, limit: int
    ) -> Sequence[DeadLetterRecord]:
        """Those with an id above `after`, oldest first: undecided, or `decided` ones, too."""
        ...

    async def causes(self) -> Sequence[Cause]:
        """The undecided ones by code, most frequent first."""
        ...

    async def open_of(self, asset_id: str) -> Sequence[DeadLetterRecord]:
        """The asset's undecided ones, oldest first."""
        ...

    async def decide(self, letter_id: int, resolution: Resolution, *, who: str, why: str) -> bool:
        """Record a decision; False when there was one before."""
        ...
