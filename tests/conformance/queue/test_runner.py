"""The workers of a process: woken by notifications, stopped in order, and stopped when their claims are void."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from tests.conformance.queue.workers import (
    DEADLINE_SECONDS,
    Hanging,
    Pool,
    Recorder,
    Rescue,
    enqueue,
    job,
    request,
    running,
    settle_as,
    silence,
    taken,
    until,
    until_listening,
)

from vodpress.adapters.queue import settle
from vodpress.adapters.queue.decide import hasten_of_asset, revive
from vodpress.adapters.queue.inspect import count_jobs
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.failure import Failure, LeaseLost
from vodpress.domain.job import Claim, JobState

COMEBACKS = ["retry", "hand_back", "rescue", "revive", "hasten"]


async def come_back(pool: Pool, claim: Claim, how: str) -> None:
    match how:
        case "rescue":
            await silence(pool)
            await Rescue(pool).rescue()
        case "hand_back":
            await settle_as(pool, "hand_back", claim)
        case "retry":
            async with pool.connection() as connection, connection.transaction():
                await QueueJobs(connection).retry(claim, 0)
        case "revive":
            await settle_as(pool, "bury", claim)
            async with pool.connection() as connection, connection.transaction():
                assert await revive(connection, claim.job_id)
        case "hasten":
            await settle_as(pool, "snooze", claim)
            async with pool.connection() as connection, connection.transaction():
                assert await hasten_of_asset(connection, "a1") == 1


@pytest.mark.parametrize("how", COMEBACKS)
async def test_what_comes_back_is_told_to_workers(pool: Pool, database: str, how: str) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    async with await AsyncConnection.connect(database, autocommit=True) as listener:
        await listener.execute('LISTEN "procrastinate_queue_v1#light"')
        await come_back(pool, claim, how)
        async for heard in listener.notifies(timeout=DEADLINE_SECONDS, stop_after=1):
            assert f'"job_inserted", "job_id" : {claim.job_id}' in heard.payload
            return
    pytest.fail("nothing was heard")


@pytest.mark.parametrize("how", COMEBACKS)
async def test_what_comes_back_is_picked_up_without_polling(pool: Pool, how: str) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    recorder = Recorder(pool)
    async with running(pool, recorder), asyncio.timeout(DEADLINE_SECONDS):
        await until_listening(pool)
        await come_back(pool, claim, how)
        assert await recorder.done.get() == "a1"


async def test_no_job_is_missed_between_looking_and_listening(pool: Pool) -> None:
    """Jobs that arrive at any moment of a runner's life, with nothing but notifications to wake it."""
    recorder = Recorder(pool)
    for start in range(5):
        first = asyncio.ensure_future(enqueue(pool, request(start)))
        async with running(pool, recorder), asyncio.timeout(DEADLINE_SECONDS):
            await first
            assert await recorder.done.get() == f"a{start}"
            for number in range(100, 140):
                await enqueue(pool, request(number))
                assert await recorder.done.get() == f"a{number}"


async def test_as_many_jobs_at_once_as_was_said(pool: Pool) -> None:
    together = asyncio.Barrier(3)
    recorder = Recorder(pool)
    most, at_once = 0, 0

    async def count(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        nonlocal most, at_once
        at_once += 1
        most = max(most, at_once)
        await together.wait()
        await recorder(kind, claim, args)
        at_once -= 1

    await enqueue(pool, *(request(number) for number in range(12)))
    async with running(pool, count, concurrency=3), asyncio.timeout(DEADLINE_SECONDS):
        assert len({await recorder.done.get() for _ in range(12)}) == 12
    assert most == 3


async def test_shutdown_hands_back_to_a_worker_that_takes_over_at_once(pool: Pool) -> None:
    await enqueue(pool, request())
    hanging, recorder = Hanging(pool), Recorder(pool)
    async with running(pool, hanging, grace_seconds=0) as stop, asyncio.timeout(DEADLINE_SECONDS):
        first = await hanging.begun.get()
        async with running(pool, recorder):
            await until_listening(pool, runners=2)
            stop.set()
            assert await hanging.cancelled.get() == first
            assert await recorder.done.get() == "a1"
    assert await job(pool, first.job_id) == (JobState.SUCCEEDED, 1), "the attempt was given back"


async def test_shutdown_lets_a_job_finish_within_the_grace_and_takes_no_other(pool: Pool) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        begun.set()
        await go_on.wait()
        await settle_as(pool, "complete", claim)

    await enqueue(pool, request(1))
    async with running(pool, work, grace_seconds=DEADLINE_SECONDS) as stop, asyncio.timeout(DEADLINE_SECONDS):
        await begun.wait()
        await until_listening(pool)
        stop.set()
        await until_listening(pool, runners=0)  # the first thing that a worker stops
        await enqueue(pool, request(2))
        go_on.set()
    async with pool.connection() as connection:
        assert await count_jobs(connection) == {("light", JobState.SUCCEEDED): 1, ("light", JobState.TODO): 1}


async def test_cancelling_an_assets_jobs_stops_the_handler_and_voids_its_claim(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2))
    hanging = Hanging(pool)
    begun: dict[str, Claim] = {}
    both = asyncio.Event()

    async def hang(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        begun[args["asset_id"]] = claim
        if len(begun) == 2:
            both.set()
        await hanging.hang(claim)

    async with running(pool, hang, grace_seconds=0), asyncio.timeout(DEADLINE_SECONDS):
        await both.wait()
        async with pool.connection() as connection, connection.transaction():
            assert await QueueJobs(connection).cancel_of_asset("a1") == 1
        assert await hanging.cancelled.get() == begun["a1"]
        with pytest.raises(LeaseLost):
            await settle_as(pool, "complete", begun["a1"])
        assert await job(pool, begun["a1"].job_id) == (JobState.CANCELLED, 1)
        assert await job(pool, begun["a2"].job_id) == (JobState.DOING, 1)


async def test_a_cancellation_that_was_not_heard_is_seen(pool: Pool) -> None:
    await enqueue(pool, request())
    hanging = Hanging(pool)
    async with running(pool, hanging, lease_seconds=1), asyncio.timeout(DEADLINE_SECONDS):
        claim = await hanging.begun.get()
        async with pool.connection() as connection:
            await connection.execute(
                "UPDATE procrastinate_jobs SET status = 'cancelled', claim_id = NULL, worker_id = NULL"
            )
        assert await hanging.cancelled.get() == claim
    assert await job(pool, claim.job_id) == (JobState.CANCELLED, 1)


async def test_only_the_old_one_is_stopped_when_a_process_gets_its_own_job_again(pool: Pool) -> None:
    """As after a pause: the job was rescued and given to the same process, in which the old handler still runs."""
    await enqueue(pool, request())
    begun: asyncio.Queue[Claim] = asyncio.Queue()
    cancelled: asyncio.Queue[Claim] = asyncio.Queue()
    go_on, completed = asyncio.Event(), asyncio.Event()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        begun.put_nowait(claim)
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            cancelled.put_nowait(claim)
            raise
        await settle_as(pool, "complete", claim)
        completed.set()

    async with running(pool, work, lease_seconds=1), asyncio.timeout(DEADLINE_SECONDS):
        old = await begun.get()
        async with pool.connection() as connection:
            await connection.execute("UPDATE procrastinate_jobs SET status = 'todo', claim_id = NULL, worker_id = NULL")
        new = await begun.get()
        assert await cancelled.get() == old
        go_on.set()
        await completed.wait()
    assert cancelled.empty()
    assert await job(pool, new.job_id) == (JobState.SUCCEEDED, 2)


async def test_a_worker_that_was_taken_for_dead_starts_anew(pool: Pool) -> None:
    """What it ran is stopped and handed back; the worker that follows it takes it up."""
    await enqueue(pool, request())
    hanging = Hanging(pool)
    async with running(pool, hanging, lease_seconds=1, grace_seconds=DEADLINE_SECONDS):
        async with asyncio.timeout(DEADLINE_SECONDS):
            old = await hanging.begun.get()
            async with pool.connection() as connection:
                await connection.execute("DELETE FROM procrastinate_workers")
            assert await hanging.cancelled.get() == old
            new = await hanging.completed.get()
    assert new.claim_id != old.claim_id
    assert await job(pool, new.job_id) == (JobState.SUCCEEDED, 1)


async def test_a_lost_connection_costs_no_job(pool: Pool, database: str) -> None:
    """Every connection of the runner is ended under it: it listens and fetches again, and settles each job once."""
    done: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        async with await AsyncConnection.connect(database) as own:
            await settle.complete(own, claim)
        done.put_nowait((args["asset_id"], claim.attempt))

    async with running(pool, work), asyncio.timeout(DEADLINE_SECONDS):
        await enqueue(pool, request(1))
        assert await done.get() == ("a1", 1)
        async with await AsyncConnection.connect(database, autocommit=True) as own:
            await end_sessions(own, database)
            await QueueJobs(own).enqueue(request(2))
        assert await done.get() == ("a2", 1)


async def test_a_job_runs_on_while_its_lease_outlasts_a_lost_database(pool: Pool, database: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    done: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        if args["asset_id"] == "a1":
            begun.set()
            await go_on.wait()
        async with await AsyncConnection.connect(database) as own:
            await settle.complete(own, claim)
        done.put_nowait((args["asset_id"], claim.attempt))

    await enqueue(pool, request(1))
    async with running(pool, work, grace_seconds=0), asyncio.timeout(DEADLINE_SECONDS):
        await begun.wait()
        async with await AsyncConnection.connect(database, autocommit=True) as own:
            await end_sessions(own, database)
            await QueueJobs(own).enqueue(request(2))
        assert await done.get() == ("a2", 1)
        go_on.set()
        assert await done.get() == ("a1", 1)


async def test_jobs_are_stopped_when_the_database_is_away_for_as_long_as_a_lease(
    pool: Pool, database: str, database_server: str
) -> None:
    await enqueue(pool, request())
    hanging, rescue = Hanging(pool), Rescue(pool, lease_seconds=1)
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    async with (
        await AsyncConnection.connect(database_server, autocommit=True) as server,
        running(pool, hanging, lease_seconds=1),
        asyncio.timeout(DEADLINE_SECONDS),
    ):
        old = await hanging.begun.get()
        await server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        await end_sessions(server, database)
        assert await hanging.cancelled.get() == old
        assert hanging.completed.empty()
        await server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
        rescuing = asyncio.ensure_future(rescue.rescuer.run())
        new = await hanging.completed.get()
        rescuing.cancel()
        await asyncio.gather(rescuing, return_exceptions=True)
    assert new.claim_id != old.claim_id
    assert (await job(pool, new.job_id))[0] is JobState.SUCCEEDED


async def test_a_job_that_could_not_be_settled_for_want_of_a_database_is_handed_back(pool: Pool) -> None:
    await enqueue(pool, request())
    claims: list[Claim] = []
    recorder = Recorder(pool)

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        claims.append(claim)
        if len(claims) == 1:
            raise Failure("database_unavailable")
        await recorder(kind, claim, args)

    async with running(pool, work), asyncio.timeout(DEADLINE_SECONDS):
        assert await recorder.done.get() == "a1"
    assert [claim.attempt for claim in claims] == [1, 1], "the attempt was given back"


@pytest.mark.parametrize("error", [RuntimeError("a defect"), LeaseLost("taken away")], ids=["defect", "lease lost"])
async def test_a_job_that_was_not_settled_otherwise_is_left_to_rescue(pool: Pool, error: Exception) -> None:
    """Its attempt counts, so that a defect that comes up every time runs out."""
    await enqueue(pool, request())
    claims: list[Claim] = []
    recorder = Recorder(pool)

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        claims.append(claim)
        if len(claims) == 1:
            raise error
        await recorder(kind, claim, args)

    async with running(pool, work, lease_seconds=1), asyncio.timeout(DEADLINE_SECONDS):
        await until(pool, "SELECT FROM procrastinate_jobs WHERE status = 'doing' AND worker_id IS NULL")
        assert await Rescue(pool).rescue() == 1
        assert await recorder.done.get() == "a1"
    assert [claim.attempt for claim in claims] == [1, 2]


async def end_sessions(connection: AsyncConnection[Any], database: str) -> None:
    """End every session in a database but the one that asks."""
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", (name,)
    )
