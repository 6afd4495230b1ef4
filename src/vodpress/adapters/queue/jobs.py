"""The queue inside a transaction: what stages may do with jobs."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import Session
from vodpress.adapters.queue import decide, settle
from vodpress.adapters.queue.enqueue import enqueue
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, JobRequest
from vodpress.ports import LiveJobs

_SQL = load(__package__, "jobs.sql")


class QueueJobs:
    """`ports.Jobs` on the connection of the caller's transaction."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self._session = Session(connection)

    async def enqueue(self, *requests: JobRequest) -> int:
        """See `ports.Jobs.enqueue`."""
        return await enqueue(self._connection, requests)

    async def verify(self, claim: Claim) -> None:
        """See `ports.Jobs.verify`."""
        await settle.verify(self._connection, claim)

    async def complete(self, claim: Claim) -> None:
        """See `ports.Jobs.complete`."""
        await settle.complete(self._connection, claim)

    async def snooze(self, claim: Claim, seconds: float) -> None:
        """See `ports.Jobs.snooze`."""
        await settle.snooze(self._connection, claim, seconds)

    async def retry(self, claim: Claim, delay_seconds: float) -> None:
        """See `ports.Jobs.retry`."""
        await settle.retry(self._connection, claim, delay_seconds)

    async def bury(self, claim: Claim) -> None:
        """See `ports.Jobs.bury`."""
        await settle.bury(self._connection, claim)

    async def discard(self, claim: Claim) -> None:
        """See `ports.Jobs.discard`."""
        await settle.discard(self._connection, claim)

    async def record_failure(self, claim: Claim, failure: Failure, traceback: str) -> None:
        """See `ports.Jobs.record_failure`. A wait that repeats renews its row, so that waiting fills no table."""
        await self._session.change(
            _SQL["record_failure"],
            job_id=claim.job_id,
            attempt=claim.attempt,
            kind=failure.kind,
            code=failure.code,
            message=failure.message,
            detail=failure.detail,
            traceback=traceback,
        )

    async def live_of_asset(self, asset_id: str) -> LiveJobs:
        """See `ports.Jobs.live_of_asset`."""
        counts = await self._session.one(_SQL["live_of_asset"], asset_id=asset_id)
        last = await self._session.one(_SQL["last_failure_of_asset"], asset_id=asset_id)
        return LiveJobs(
            running=counts["running"] if counts else 0,
            waiting=counts["waiting"] if counts else 0,
            delayed=counts["delayed"] if counts else 0,
            last_failure_kind=last["kind"] if last else None,
            last_failure_code=last["code"] if last else None,
            last_failure_message=last["message"] if last else None,
        )

    async def hasten_of_asset(self, asset_id: str) -> int:
        """See `ports.Jobs.hasten_of_asset`."""
        return await decide.hasten_of_asset(self._connection, asset_id)

    async def cancel_of_asset(self, asset_id: str, *, plan_id: int | None = None) -> int:
        """See `ports.Jobs.cancel_of_asset`."""
        return await decide.cancel_of_asset(self._connection, asset_id, plan_id=plan_id)
