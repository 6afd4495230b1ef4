"""The unit of work over PostgreSQL: one transaction for rows, jobs and events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from vodpress.adapters.db.assets import PostgresAssets
from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.nodes import PostgresNodes
from vodpress.adapters.db.plans import PostgresPlans
from vodpress.adapters.db.records import PostgresDeadLetters, PostgresManifests, PostgresOutbox
from vodpress.adapters.db.session import CONNECTION_LOST, Session, let_cancellation_pass
from vodpress.adapters.db.speeds import PostgresSpeeds
from vodpress.domain.events import Event
from vodpress.domain.failure import Failure, LeaseLost
from vodpress.domain.job import Claim
from vodpress.ports import Jobs

_PLANS = load(__package__, "plans.sql")

Pool = AsyncConnectionPool[AsyncConnection[Any]]


class PostgresTransaction:
    """`ports.Transaction`."""

    def __init__(self, connection: AsyncConnection[Any], jobs: Jobs) -> None:
        self.session = session = Session(connection)
        self.assets = PostgresAssets(session)
        self.plans = PostgresPlans(session)
        self.manifests = PostgresManifests(session)
        self.nodes = PostgresNodes(session)
        self.speeds = PostgresSpeeds(session)
        self.dead_letters = PostgresDeadLetters(session)
        self.outbox = PostgresOutbox(session)
        self.jobs = jobs

    async def emit(self, event: Event) -> None:
        """See `ports.Transaction.emit`."""
        await self.outbox.emit(event)

    async def moment(self) -> str:
        """See `ports.Transaction.moment`."""
        row = await self.session.one("SELECT clock_timestamp() AS moment")
        assert row is not None  # noqa: S101 - a SELECT without FROM gives a row
        return str(row["moment"].isoformat())


class PostgresUnitOfWork:
    """`ports.UnitOfWork` over a connection pool.

    Args:
        jobs_on: makes the queue's face for one connection, so that jobs join the transaction.
    """

    def __init__(self, pool: Pool, jobs_on: Callable[[AsyncConnection[Any]], Jobs]) -> None:
        self._pool = pool
        self._jobs_on = jobs_on

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PostgresTransaction]:
        """See `ports.UnitOfWork.begin`."""
        try:
            async with self._pool.connection() as connection, connection.transaction():
                yield PostgresTransaction(connection, self._jobs_on(connection))
        except (DeadlockDetected, SerializationFailure) as error:
            # The server undid this transaction so that another could go on: nothing is wrong with it.
            raise Failure("database_busy", detail=str(error)) from error
        except (*CONNECTION_LOST, PoolTimeout) as error:
            let_cancellation_pass(error)
            raise Failure("database_unavailable", detail=str(error)) from error

    async def report_progress(
        self, *, claim: Claim, rendition_ids: Sequence[int], slice_index: int, done: float, total: float, speed: float
    ) -> None:
        """See `ports.UnitOfWork.report_progress`."""
        async with self.begin() as transaction:
            written = await transaction.session.change(
                _PLANS["report_progress"],
                rendition_ids=list(rendition_ids),
                index=slice_index,
                lease=claim.claim_id,
                done=done,
                total=total,
                speed=speed,
            )
        if written == 0:
            raise LeaseLost(f"claim {claim.claim_id} on job {claim.job_id} is no longer the live one")
