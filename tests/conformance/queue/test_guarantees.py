"""What is added to the queue engine, one property a test, against a real PostgreSQL (docs/decisions/0001)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from vodpress.adapters.db.unit_of_work import PostgresTransaction, PostgresUnitOfWork
from vodpress.adapters.queue import settle
from vodpress.adapters.queue.decide import revive
from vodpress.adapters.queue.inspect import count_jobs, list_jobs
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.adapters.queue.rescue import Rescuer
from vodpress.adapters.queue.runner import QueueRunner
from vodpress.domain.failure import Failure, LeaseLost
from vodpress.domain.job import Claim, JobKind, JobRequest, JobState, Priority, Queue
from vodpress.domain.retry import Schedule

Pool = AsyncConnectionPool[AsyncConnection[Any]]

NEVER_SECONDS = 3600.0
DEADLINE_SECONDS = 20.0
SETTLERS: dict[str, Callable[[AsyncConnection[Any], Claim], Awaitable[None]]] = {
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


async def silence(pool: Pool) -> None:
    """Every worker's last sign of life was long ago."""
    async with pool.connection() as connection:
        await connection.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 day'")


async def job(pool: Pool, job_id: int) -> tuple[JobState, int]:
    async with pool.connection() as connection:
        row = next(row for row in await list_jobs(connection, limit=10_000) if row.id == job_id)
    return row.state, row.attempt


class Rescue:
    """A rescuer, and what it gave up on."""

    def __init__(self, pool: Pool, attempts: int = 3) -> None:
        self.given_up: list[int] = []
        schedule = Schedule(delays_seconds=(0.0,) * (attempts - 1))

        async def run_out(kind: str, claim: Claim, args: Mapping[str, Any], transaction: PostgresTransaction) -> None:
            assert (kind, args["asset_id"]) == (JobKind.PACKAGE, "a1")
            await transaction.session.change("SELECT 1")
            self.given_up.append(claim.job_id)

        self.rescuer = Rescuer(
            PostgresUnitOfWork(pool, QueueJobs).begin,
            schedules=dict.fromkeys(JobKind, schedule),
            run_out=run_out,
            lease_seconds=30,
        )


@asynccontextmanager
async def running(
    pool: Pool,
    execute: Callable[[str, Claim, Mapping[str, Any]], Awaitable[None]],
    *,
    grace_seconds: float = 5,
    lease_seconds: float = 30,
    concurrency: int = 2,
) -> AsyncIterator[None]:
    """A runner that polls so seldom that only notifications can wake it in time."""
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
        yield
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await task


async def test_a_rollback_leaves_no_job(pool: Pool) -> None:
    async with pool.connection() as connection, connection.transaction(force_rollback=True):
        assert await QueueJobs(connection).enqueue(request()) == 1
    async with pool.connection() as connection:
        assert await count_jobs(connection) == {}


async def test_a_key_is_there_once_while_it_waits_or_runs(pool: Pool) -> None:
    assert await enqueue(pool, request(), request()) == 1
    assert await enqueue(pool, request()) == 0
    claim = await taken(pool)
    assert await enqueue(pool, request()) == 0
    async with pool.connection() as connection, connection.transaction():
        await settle.complete(connection, claim)
    assert await enqueue(pool, request()) == 1


async def test_of_transactions_that_enqueue_one_key_at_once_one_wins(pool: Pool) -> None:
    added = await asyncio.gather(*(enqueue(pool, request()) for _ in range(8)))
    assert sorted(added) == [0] * 7 + [1]


@pytest.mark.parametrize("name", SETTLERS)
async def test_a_worker_that_comes_back_from_the_dead_changes_nothing(pool: Pool, name: str) -> None:
    await enqueue(pool, request())
    old = await taken(pool)
    await silence(pool)
    assert await Rescue(pool).rescuer.rescue() == 1
    new = await taken(pool)
    assert new.job_id == old.job_id
    assert new.attempt == 2
    with pytest.raises(LeaseLost):
        async with pool.connection() as connection, connection.transaction():
            await SETTLERS[name](connection, old)
    assert await job(pool, new.job_id) == (JobState.DOING, 2)
    async with pool.connection() as connection, connection.transaction():
        await SETTLERS[name](connection, new)


@pytest.mark.parametrize(
    ("name", "state", "attempt"),
    [
        ("complete", JobState.SUCCEEDED, 1),
        ("snooze", JobState.TODO, 0),
        ("retry", JobState.TODO, 1),
        ("hand_back", JobState.TODO, 0),
        ("bury", JobState.FAILED, 1),
        ("discard", JobState.CANCELLED, 1),
    ],
)
async def test_how_a_claim_ends(pool: Pool, name: str, state: JobState, attempt: int) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    assert await job(pool, claim.job_id) == (JobState.DOING, 1)
    async with pool.connection() as connection, connection.transaction():
        await SETTLERS[name](connection, claim)
    assert await job(pool, claim.job_id) == (state, attempt)
    for again in SETTLERS.values():
        with pytest.raises(LeaseLost):
            async with pool.connection() as connection, connection.transaction():
                await again(connection, claim)


async def test_a_job_that_kills_its_workers_runs_out_once(pool: Pool) -> None:
    await enqueue(pool, request())
    rescue = Rescue(pool, attempts=3)
    for attempt in (1, 2, 3):
        claim = await taken(pool)
        assert claim.attempt == attempt
        assert rescue.given_up == []
        await silence(pool)
        await asyncio.gather(*(rescue.rescuer.rescue() for _ in range(4)))
    assert rescue.given_up == [claim.job_id]
    assert await job(pool, claim.job_id) == (JobState.FAILED, 3)
    assert await fetch(pool) is None


async def test_rescue_leaves_the_living_alone(pool: Pool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    assert await Rescue(pool).rescuer.rescue() == 0
    assert await job(pool, claim.job_id) == (JobState.DOING, 1)


async def test_priority_first_then_age(pool: Pool) -> None:
    await enqueue(
        pool,
        request(1, priority=Priority.BULK),
        request(2),
        request(3, priority=Priority.UNBLOCKS),
        request(4),
    )
    async with pool.connection() as connection:
        ids = {row.args["asset_id"]: row.id for row in await list_jobs(connection)}
    order = [(await taken(pool)).job_id for _ in range(4)]
    assert order == [ids["a3"], ids["a2"], ids["a4"], ids["a1"]]


async def test_only_the_queue_that_is_served(pool: Pool) -> None:
    await enqueue(pool, request())
    assert await fetch(pool, queue=Queue.ENCODE) is None
    assert await fetch(pool, queue=Queue.LIGHT) is not None


async def test_a_job_of_a_kind_from_another_release_is_left_alone(pool: Pool) -> None:
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, unique_key) VALUES ('light', 'hologram', 'k')"
        )
    assert await fetch(pool) is None


@pytest.mark.parametrize("comes_back", ["retry", "hand_back", "rescue", "revive"])
async def test_what_comes_back_is_picked_up_by_notification(pool: Pool, comes_back: str) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    got = asyncio.Event()

    async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        async with pool.connection() as connection, connection.transaction():
            await settle.complete(connection, claim)
        got.set()

    async with running(pool, execute), asyncio.timeout(DEADLINE_SECONDS):
        async with pool.connection() as connection:  # wait until the runner listens and has found nothing
            listening = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query ~ 'LISTEN.*light'"
            while await (await connection.execute(listening)).fetchone() is None:
                await connection.rollback()  # or it goes on seeing the same moment
                await asyncio.sleep(0.01)
        if comes_back == "rescue":
            await silence(pool)
            await Rescue(pool).rescuer.rescue()
        else:
            async with pool.connection() as connection, connection.transaction():
                if comes_back == "retry":
                    await settle.retry(connection, claim, 0)
                elif comes_back == "hand_back":
                    await settle.hand_back(connection, claim)
                else:
                    await settle.bury(connection, claim)
            if comes_back == "revive":
                async with pool.connection() as connection, connection.transaction():
                    assert await revive(connection, claim.job_id)
        await got.wait()


async def test_no_job_is_missed_between_looking_and_listening(pool: Pool) -> None:
    """Jobs that arrive at any moment of a runner's life, with nothing but notifications to wake it."""
    done: asyncio.Queue[str] = asyncio.Queue()

    async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        async with pool.connection() as connection, connection.transaction():
            await settle.complete(connection, claim)
        done.put_nowait(args["asset_id"])

    for start in range(5):
        first = asyncio.ensure_future(enqueue(pool, request(start)))
        async with running(pool, execute), asyncio.timeout(DEADLINE_SECONDS):
            await first
            assert await done.get() == f"a{start}"
            for number in range(100, 140):
                await enqueue(pool, request(number))
                assert await done.get() == f"a{number}"


async def test_shutdown_hands_back_at_once(pool: Pool) -> None:
    await enqueue(pool, request())
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(pool, hang, grace_seconds=0):
        await asyncio.wait_for(begun.wait(), DEADLINE_SECONDS)
    assert ended.is_set()
    assert (await taken(pool)).attempt == 1, "the attempt was given back"


async def test_shutdown_lets_a_job_finish_within_the_grace(pool: Pool) -> None:
    await enqueue(pool, request())
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        begun.set()
        await go_on.wait()
        async with pool.connection() as connection, connection.transaction():
            await settle.complete(connection, claim)

    async with running(pool, work, grace_seconds=DEADLINE_SECONDS):
        await asyncio.wait_for(begun.wait(), DEADLINE_SECONDS)
        asyncio.get_running_loop().call_later(0.05, go_on.set)  # after the stop
    async with pool.connection() as connection:
        assert await count_jobs(connection) == {("light", JobState.SUCCEEDED): 1}


async def test_cancelling_an_assets_jobs_stops_the_handler_and_voids_its_claim(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2))
    begun: asyncio.Queue[Claim] = asyncio.Queue()
    cancelled: asyncio.Queue[Claim] = asyncio.Queue()

    async def hang(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        begun.put_nowait(claim)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.put_nowait(claim)
            raise

    async with running(pool, hang, grace_seconds=0), asyncio.timeout(DEADLINE_SECONDS):
        claims = [await begun.get(), await begun.get()]
        async with pool.connection() as connection, connection.transaction():
            assert await QueueJobs(connection).cancel_of_asset("a1") == 1
        stopped = await cancelled.get()
        assert stopped in claims
        with pytest.raises(LeaseLost):
            async with pool.connection() as connection, connection.transaction():
                await settle.complete(connection, stopped)
        assert await job(pool, stopped.job_id) == (JobState.CANCELLED, 1)


async def test_a_lost_connection_costs_no_job(pool: Pool, database: str) -> None:
    """Every connection of the runner is ended under it: it listens and fetches again, and settles each job once."""
    done: asyncio.Queue[str] = asyncio.Queue()

    async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        async with pool.connection() as connection, connection.transaction():
            await settle.complete(connection, claim)
        done.put_nowait(args["asset_id"])

    async with running(pool, execute), asyncio.timeout(3 * DEADLINE_SECONDS):
        await enqueue(pool, request(1))
        assert await done.get() == "a1"
        async with await AsyncConnection.connect(database, autocommit=True) as other:
            await other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            await other.execute(
                "INSERT INTO procrastinate_jobs (queue_name, task_name, args, unique_key) "
                "VALUES ('light', 'package', '{\"asset_id\": \"a2\"}', 'key:2')"
            )
            assert await done.get() == "a2"
            row = await (await other.execute("SELECT count(*), sum(attempts) FROM procrastinate_jobs")).fetchone()
    assert row == (2, 2)


async def test_a_worker_that_was_taken_for_dead_starts_anew(pool: Pool) -> None:
    done: asyncio.Queue[str] = asyncio.Queue()

    async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        async with pool.connection() as connection, connection.transaction():
            await settle.complete(connection, claim)
        done.put_nowait(args["asset_id"])

    async with running(pool, execute, lease_seconds=1), asyncio.timeout(DEADLINE_SECONDS):
        await enqueue(pool, request(1))
        await done.get()
        async with pool.connection() as connection:
            await connection.execute("DELETE FROM procrastinate_workers")
            await connection.commit()
            while await (await connection.execute("SELECT FROM procrastinate_workers")).fetchone() is None:
                await connection.rollback()
                await asyncio.sleep(0.05)
        await enqueue(pool, request(2))
        assert await done.get() == "a2"


async def test_a_fetch_reads_the_same_few_pages_whatever_the_statistics_say(pool: Pool) -> None:
    async with pool.connection() as connection:
        await connection.execute("ANALYZE procrastinate_jobs")
        await connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, unique_key) "
            "SELECT 'light', 'package', 'key:' || n FROM generate_series(1, 5000) AS n"
        )

    async def rows_read() -> int:
        async with pool.connection() as connection:
            await connection.execute("SELECT pg_stat_force_next_flush()")
            row = await (
                await connection.execute(
                    "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables "
                    "WHERE relname = 'procrastinate_jobs'"
                )
            ).fetchone()
        return int(row[0]) if row else 0

    before = await rows_read()
    for _ in range(20):
        await taken(pool)
    assert await rows_read() - before < 20 * 50


async def test_failures_are_kept_one_row_an_attempt(pool: Pool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    async with pool.connection() as connection, connection.transaction():
        jobs = QueueJobs(connection)
        for detail in ("first", "again"):
            await jobs.record_failure(claim, Failure("disk_reserve_short", detail=detail), "Traceback …")
        await jobs.snooze(claim, 60)
        live = await jobs.live_of_asset("a1")
        rows = await (await connection.execute("SELECT attempt, kind, code, detail FROM job_failures")).fetchall()
    assert rows == [(1, "not_yet", "disk_reserve_short", "again")]
    assert (live.running, live.waiting, live.delayed, live.last_failure_code) == (0, 0, 1, "disk_reserve_short")


async def test_live_jobs_of_an_asset(pool: Pool) -> None:
    await enqueue(pool, request(1))
    await taken(pool)
    other = JobRequest(JobKind.THUMBNAILS, {"asset_id": "a1"}, unique_key="other")
    await enqueue(pool, other, request(2))
    async with pool.connection() as connection:
        live = await QueueJobs(connection).live_of_asset("a1")
    assert (live.running, live.waiting, live.delayed, live.total) == (1, 1, 0, 2)
