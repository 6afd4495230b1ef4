"""Rescue: jobs of workers that died go to others, or are given up when they have cost too many workers.

It runs beside the queue and not in it, for a job that rescues could itself need rescue. Any number may run at once.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

import structlog

from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import Session
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, JobKind
from vodpress.domain.retry import Schedule

_SQL = load(__package__, "rescue.sql")
_LOOKS_A_LEASE = 3
_MOST_AT_ONCE = 1000  # the next look finds the rest

_log = structlog.get_logger(__name__)


class HasSession(Protocol):
    """A transaction whose connection can be reached."""

    @property
    def session(self) -> Session: ...  # noqa: D102


Transaction = TypeVar("Transaction", bound=HasSession)


class Rescuer(Generic[Transaction]):
    """Looks after jobs whose worker gives no sign of life.

    Args:
        begin: opens a transaction.
        schedules: how often each kind may be tried.
        run_out: gives up on a job in the transaction that buries it.
        lease_seconds: how old a worker's last sign of life may be.
    """

    def __init__(
        self,
        begin: Callable[[], AbstractAsyncContextManager[Transaction]],
        *,
        schedules: Mapping[JobKind, Schedule],
        run_out: Callable[[str, Claim, Mapping[str, Any], Transaction], Awaitable[None]],
        lease_seconds: float,
    ) -> None:
        self._begin = begin
        self._schedules = schedules
        self._run_out = run_out
        self._lease_seconds = lease_seconds

    async def run(self) -> None:
        """Rescue again and again, until cancelled. A lost database is waited for."""
        while True:
            try:
                await self.rescue()
            except Failure as failure:
                _log.warning("rescue has to wait", code=failure.code, detail=failure.detail)
            await asyncio.sleep(self._lease_seconds / _LOOKS_A_LEASE)

    async def rescue(self) -> int:
        """Rescue every job that needs it now, each in a transaction of its own; returns how many.

        A job that cannot be given up, because `run_out` raises, stays as it is and stands in no other's way.

        Raises:
            Failure: `database_unavailable`.
        """
        rescued = 0
        for job_id in await self._abandoned():
            try:
                rescued += await self._rescue(job_id)
            except Failure:
                raise
            except Exception:  # noqa: BLE001 - one job that cannot be given up must not end rescue for all
                _log.exception("job cannot be given up, it is tried again at the next look", job=job_id)
        async with self._begin() as transaction:
            await transaction.session.change(_SQL["forget_workers"], lease_seconds=self._lease_seconds)
        return rescued

    async def _abandoned(self) -> list[int]:
        kinds = [str(kind) for kind in self._schedules]
        async with self._begin() as transaction:
            rows = await transaction.session.all(
                _SQL["abandoned"], lease_seconds=self._lease_seconds, kinds=kinds, limit=_MOST_AT_ONCE
            )
        return [row["id"] for row in rows]

    async def _rescue(self, job_id: int) -> bool:
        async with self._begin() as transaction:
            if await transaction.session.one(_SQL["lock"], job_id=job_id) is None:
                return False
            row = await transaction.session.one(_SQL["look_again"], job_id=job_id, lease_seconds=self._lease_seconds)
            if row is None:
                return False
            kind, attempt = row["task_name"], row["attempts"]
            if attempt < self._schedules[JobKind(kind)].attempts:
                await transaction.session.change(_SQL["give_to_others"], job_id=job_id)
                _log.warning("job rescued from a dead worker", job=job_id, kind=kind, attempt=attempt)
                return True
            # Under a claim of our own, so that the dead worker can change nothing, should it come back.
            claim = Claim(job_id, str(uuid.uuid4()), attempt)
            await transaction.session.change(_SQL["bury"], job_id=job_id)
            await self._run_out(kind, claim, row["args"], transaction)
            _log.error("job given up, every worker that took it died", job=job_id, kind=kind, attempts=attempt)
            return True
