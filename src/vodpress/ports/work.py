"""The unit of work: domain rows, jobs and events that change together or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from vodpress.domain.asset import AssetState
from vodpress.domain.events import Event
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, JobRequest
from vodpress.domain.media import Probe
from vodpress.domain.plan import Plan
from vodpress.domain.progress import AssetProgress
from vodpress.domain.rendition import PlanState
from vodpress.ports.records import (
    AssetRecord,
    DeadLetterRecord,
    LiveJobs,
    ManifestRecord,
    NewAsset,
    NewRendition,
    PlanRecord,
    RenditionRecord,
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

    async def set_live_version(self, asset_id: str, version: int) -> None:
        """Make a newer version of a ready asset the live one; an older one changes nothing."""
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

    async def add(
        self, *, asset_id: str, plan_hash: str, ladder_name: str, plan: Plan, renditions: Sequence[NewRendition]
    ) -> int | None:
        """Insert a plan with its renditions and slices; `None` when the asset has this plan already."""
        ...

    async def get(self, plan_id: int, *, lock: bool = False) -> PlanRecord | None:
        """The plan; with `lock`, other transactions that lock it wait until this one ends."""
        ...

    async def by_hash(self, asset_id: str, plan_hash: str, *, lock: bool = False) -> PlanRecord | None:
        """The asset's plan with this hash."""
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

    async def claim_slices(self, plan_id: int, *, kind: str, index: int, claim: Claim) -> Sequence[RenditionRecord]:
        """Take the slice `index` of every rendition of that kind where it is not completed, under the claim as lease.

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

    async def reopen(self, plan_id: int) -> None:
        """Take failed renditions and the plan back to the work at which they failed; what was recorded is kept."""
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

    async def reserve_version(self, plan_id: int) -> int:
        """The number that the plan's next version will have: a new one of the asset, or the one it holds unused."""
        ...

    async def of_plan(self, plan_id: int) -> ManifestRecord | None:
        """The newest version made from a plan."""
        ...


class DeadLetters(Protocol):
    """Rows of `dead_letters`."""

    async def add(
        self, *, asset_id: str, kind: str, args: Mapping[str, Any], failure: Failure, attempts: int
    ) -> DeadLetterRecord:
        """Put work aside until a person decides."""
        ...

    async def open_of(self, asset_id: str) -> Sequence[DeadLetterRecord]:
        """The asset's undecided ones, oldest first."""
        ...

    async def resolve(self, asset_id: str, resolution: str, *, plan_id: int | None) -> Sequence[DeadLetterRecord]:
        """Decide the open ones of a plan, or with `None` those from before there was one, and return them."""
        ...


class Jobs(Protocol):
    """The queue, inside the transaction."""

    async def enqueue(self, *requests: JobRequest) -> int:
        """Add jobs; one whose unique key is waiting or running is left out. Returns how many were added."""
        ...

    async def verify(self, claim: Claim) -> None:
        """Hold the claim live until this transaction ends. Raises `LeaseLost`."""
        ...

    async def complete(self, claim: Claim) -> None:
        """Done. Raises `LeaseLost`, as do all that settle."""
        ...

    async def snooze(self, claim: Claim, seconds: float) -> None:
        """Not yet; the attempt is given back."""
        ...

    async def retry(self, claim: Claim, delay_seconds: float) -> None:
        """Another attempt later."""
        ...

    async def bury(self, claim: Claim) -> None:
        """No further attempt."""
        ...

    async def discard(self, claim: Claim) -> None:
        """The work is moot."""
        ...

    async def record_failure(self, claim: Claim, failure: Failure, traceback: str) -> None:
        """Keep what happened in this attempt, for the operator."""
        ...

    async def live_of_asset(self, asset_id: str) -> LiveJobs:
        """The asset's unsettled jobs."""
        ...

    async def hasten_of_asset(self, asset_id: str) -> int:
        """Let jobs of an asset that wait for their time (retries, snoozes) go on at once. Returns how many."""
        ...

    async def cancel_of_asset(self, asset_id: str) -> int:
        """Cancel waiting and running jobs of an asset; running ones lose their claim."""
        ...


class Transaction(Protocol):
    """One database transaction."""

    @property
    def assets(self) -> Assets: ...  # noqa: D102
    @property
    def plans(self) -> Plans: ...  # noqa: D102
    @property
    def manifests(self) -> Manifests: ...  # noqa: D102
    @property
    def dead_letters(self) -> DeadLetters: ...  # noqa: D102
    @property
    def jobs(self) -> Jobs: ...  # noqa: D102

    async def emit(self, event: Event) -> None:
        """Write the event to the outbox."""
        ...

    async def moment(self) -> str:
        """The database's clock, ISO 8601."""
        ...


class UnitOfWork(Protocol):
    """Where transactions come from."""

    def begin(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction: committed when the block ends, rolled back when it raises.

        Raises:
            Failure: `database_unavailable`.
        """
        ...

    async def report_progress(
        self, *, claim: Claim, rendition_ids: Sequence[int], slice_index: int, done: float, total: float, speed: float
    ) -> None:
        """Write progress in seconds of media, outside any transaction. Raises `LeaseLost` when the claim is void."""
        ...
