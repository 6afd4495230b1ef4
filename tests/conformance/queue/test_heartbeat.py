"""Heartbeats: what a process holds stays its own, and what it is only on record for goes to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from tests.conformance.queue.workers import (
    DEADLINE_SECONDS,
    Hanging,
    Pool,
    Rescue,
    enqueue,
    job,
    request,
    running,
    settle_as,
    until,
    until_listening,
)

from vodpress.domain.job import Claim, JobKind, JobRequest, JobState


class SlowLine:
    """A pool for a runner in which the next heartbeat that asks for a connection waits, and nothing after it."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._armed = False
        self.waits = asyncio.Event()
        self.go_on = asyncio.Event()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Pool]:
        async with AsyncConnectionPool(self._database, min_size=4, max_size=4, open=False, check=self._check) as pool:
            await pool.wait()
            yield pool

    def arm(self) -> None:
        self._armed = True

    async def _check(self, connection: AsyncConnection[Any]) -> None:
        task = asyncio.current_task()
        # A worker that has begun to listen looks for jobs once more, at a moment nobody can tell.
        if self._armed and task is not None and "_beat" in repr(task.get_coro()):
            self._armed = False
            self.waits.set()
            await self.go_on.wait()


async def test_a_job_fetched_while_a_heartbeat_is_under_way_stays_with_its_worker(pool: Pool, database: str) -> None:
    """The heartbeat was begun before the claim was there, and reaches the database after it."""
    line = SlowLine(database)
    begun: asyncio.Queue[Claim] = asyncio.Queue()
    go_on = asyncio.Event()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        begun.put_nowait(claim)
        await go_on.wait()
        await settle_as(pool, "complete", claim)

    async with line.open() as slow, running(slow, work, lease_seconds=8), asyncio.timeout(DEADLINE_SECONDS):
        await until_listening(pool)
        line.arm()
        await line.waits.wait()
        await enqueue(pool, request())
        claim = await begun.get()
        async with pool.connection() as connection:
            await connection.execute("CREATE TABLE seen AS SELECT last_heartbeat FROM procrastinate_workers")
        line.go_on.set()
        await until(
            pool,
            "SELECT FROM procrastinate_workers AS worker, seen WHERE worker.last_heartbeat > seen.last_heartbeat",
        )
        assert await Rescue(pool).rescue() == 0, "nobody else may take it"
        go_on.set()
    assert await job(pool, claim.job_id) == (JobState.SUCCEEDED, 1)


async def test_a_job_that_a_worker_is_on_record_for_but_does_not_hold_is_rescued(pool: Pool) -> None:
    """As after a fetch whose answer was lost. What the worker does hold stays with it."""
    lost = JobRequest(JobKind.STITCH, {"asset_id": "a2"}, unique_key="lost")  # of a queue that the runner leaves alone
    await enqueue(pool, request(1), lost)
    hanging = Hanging(pool)
    async with running(pool, hanging, lease_seconds=1, grace_seconds=0), asyncio.timeout(DEADLINE_SECONDS):
        held = await hanging.begun.get()
        async with pool.connection() as connection:
            row = await (
                await connection.execute(
                    "SELECT id FROM vodpress_fetch_job('encode', ARRAY['stitch'], "
                    "(SELECT id FROM procrastinate_workers), gen_random_uuid())"
                )
            ).fetchone()
        assert row is not None
        await until(pool, "SELECT FROM procrastinate_jobs WHERE status = 'doing' AND worker_id IS NULL")
        assert await Rescue(pool).rescue() == 1
        assert await job(pool, row[0]) == (JobState.TODO, 1), "the attempt counts: it may have begun"
        assert await job(pool, held.job_id) == (JobState.DOING, 1)
        assert hanging.cancelled.empty()
