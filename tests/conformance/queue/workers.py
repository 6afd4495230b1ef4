"""Those who work on a queue, as the tests play them: callers, workers that fall silent, runners and rescuers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from vodpress.adapters.db.unit_of_work import PostgresTransaction, PostgresUnitOfWork
from vodpress.adapters.queue import settle
from vodpress.adapters.queue.inspect import list_jobs
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.adapters.queue.rescue import Rescuer
from vodpress.adapters.queue.runner import QueueRunner
from vodpress.domain.job import Claim, JobKind, JobRequest, JobState, Queue
from vodpress.domain.retry import Schedule

Connection = AsyncConnection[Any]
Pool = AsyncConnectionPool[Connection]
Execute = Callable[[str, Claim, Mapping[str, Any]], Awaitable[None]]

NEVER_SECONDS = 3600.0
DEADLINE_SECONDS = 20.0
LOOK_SECONDS = 0.01
WAITS_FOR_A_LOCK = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
SETTLERS: dict[str, Callable[[Connection, Claim], Awaitable[None]]] = {
    "verify": settle.verify,
    "complete": settle.complete,
    "snooze": lambda connection, claim: settle.snooze(connection, claim, 60),
    "retry": lambda connection, claim: settle.retry(connection, claim, 60),
    "hand_back": settle.hand_back,
    "bury": settle.bury,
    "discard": settle.discard,
}


def request(number: int = 1, **changes: Any) -> JobRequest:
    return JobRequest(JobKind.PACKAGE, {"asset_id": f"a{number}"}, unique_key=f"key:{number}", **changes)


async def enqueue(pool: Pool, *requests: JobRequest) -> int:
    async with pool.connection() as connection, connection.transaction():
        return await QueueJobs(connection).enqueue(*requests)


async def fetch(pool: Pool, *, queue: Queue = Queue.LIGHT) -> Claim | None:
    """Take a job as a worker does that then falls silent: a worker on record, without a heartbeat to come."""
    async with pool.connection() as connection, connection.transaction():
        return await fetch_on(connection, queue=queue)


async def fetch_on(connection: Connection, *, queue: Queue = Queue.LIGHT) -> Claim | None:
    worker = await (await connection.execute("SELECT procrastinate_register_worker_v1()")).fetchone()
    row = await (
        await connection.execute(
            "SELECT id, claim_id, attempts FROM vodpress_fetch_job(%s, %s, %s, gen_random_uuid())",
            (queue, [str(kind) for kind in JobKind], worker[0] if worker else None),
        )
    ).fetchone()
    return Claim(row[0], str(row[1]), row[2]) if row else None


async def taken(pool: Pool, *, queue: Queue = Queue.LIGHT) -> Claim:
    claim = await fetch(pool, queue=queue)
    assert claim is not None
    return claim


async def settle_as(pool: Pool, name: str, claim: Claim) -> None:
    async with pool.connection() as connection, connection.transaction():
        await SETTLERS[name](connection, claim)


async def silence(pool: Pool) -> None:
    """The last sign of life of every worker that has a job was long ago."""
    async with pool.connection() as connection:
        await connection.execute(
            "UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 day' "
            "WHERE id IN (SELECT worker_id FROM procrastinate_jobs)"
        )


async def job(pool: Pool, job_id: int) -> tuple[JobState, int]:
    """State and attempts."""
    async with pool.connection() as connection:
        row = next(row for row in await list_jobs(connection, limit=10_000) if row.id == job_id)
    return row.state, row.attempt


async def until(pool: Pool, query: LiteralString, *, rows: int = 1) -> None:
    """Wait for the moment when the query gives so many rows."""
    async with asyncio.timeout(DEADLINE_SECONDS), pool.connection() as connection:
        await connection.set_autocommit(True)  # in one transaction, statistics views would show one moment for ever
        try:
            # No notification tells when these views change.
            while len(await (await connection.execute(query)).fetchall()) != rows:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await connection.set_autocommit(False)


async def until_listening(pool: Pool, *, runners: int = 1) -> None:
    """Wait until so many runners listen for jobs."""
    await until(
        pool,
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' AND query ~ '^LISTEN'",
        rows=runners,
    )


class Rescue:
    """A rescuer, and what it gave up on."""

    def __init__(self, pool: Pool, *, attempts: int = 3, lease_seconds: float = 30) -> None:
        self.given_up: list[int] = []
        self.gave_up = asyncio.Event()
        self.work = PostgresUnitOfWork(pool, QueueJobs)
        self.rescuer = Rescuer(
            self.begin,
            schedules=dict.fromkeys(JobKind, Schedule(delays_seconds=(0.0,) * (attempts - 1))),
            run_out=self.run_out,
            lease_seconds=lease_seconds,
        )

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[PostgresTransaction]:
        async with self.work.begin() as transaction:
            yield transaction

    async def run_out(self, kind: str, claim: Claim, args: Mapping[str, Any], transaction: PostgresTransaction) -> None:
        assert kind == JobKind.PACKAGE
        assert set(args) == {"asset_id"}
        await transaction.session.change("SELECT 1")
        self.given_up.append(claim.job_id)
        self.gave_up.set()

    async def rescue(self) -> int:
        return await self.rescuer.rescue()


@asynccontextmanager
async def running(
    pool: Pool,
    execute: Execute,
    *,
    grace_seconds: float = 5,
    lease_seconds: float = 30,
    concurrency: int = 2,
) -> AsyncIterator[asyncio.Event]:
    """A runner that polls so seldom that only notifications can wake it in time. Gives the event that stops it."""
    stop = asyncio.Event()
    runner = QueueRunner(
        pool,
        execute=execute,
        concurrency={Queue.LIGHT: concurrency},
        lease_seconds=lease_seconds,
        grace_seconds=grace_seconds,
        poll_seconds=NEVER_SECONDS,
    )
    task = asyncio.ensure_future(runner.run(stop))
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await task


class Recorder:
    """A handler that completes each job and tells which asset it was for."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.done: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        await settle_as(self._pool, "complete", claim)
        self.done.put_nowait(args["asset_id"])


class Hanging:
    """A handler that hangs until it is cancelled, for the first job that it gets; after that it completes them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.begun: asyncio.Queue[Claim] = asyncio.Queue()
        self.cancelled: asyncio.Queue[Claim] = asyncio.Queue()
        self.completed: asyncio.Queue[Claim] = asyncio.Queue()
        self._is_first = True

    async def __call__(self, kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        self.begun.put_nowait(claim)
        if self._is_first:
            self._is_first = False
            await self.hang(claim)
        await settle_as(self._pool, "complete", claim)
        self.completed.put_nowait(claim)

    async def hang(self, claim: Claim) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.put_nowait(claim)
            raise
