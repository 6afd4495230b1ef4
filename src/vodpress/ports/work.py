"""The unit of work: domain rows, jobs and events that change together or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from vodpress.domain.events import Event
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, JobRequest
from vodpress.ports.records import (
    LiveJobs,
)
from vodpress.ports.tables import Assets, DeadLetters, Manifests, Nodes, Plans, Speeds


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

    async def cancel_of_asset(self, asset_id: str, *, plan_id: int | None = None) -> int:
        """Cancel waiting and running jobs of an asset, or of one plan of it; running ones lose their claim."""
        ...


class Transaction(Protocol):
    """One database transaction."""

    @property
    def assets(self) -> Assets: ...  # noqa: D102
    @property
    def plans(self) -> Plans: ...  # noqa: D102
    @property
    def speeds(self) -> Speeds: ...  # noqa: D102
    @property
    def nodes(self) -> Nodes: ...  # noqa: D102
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
