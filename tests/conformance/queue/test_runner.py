"""The workers of a process: woken by notifications, as many jobs at once as was said, and an orderly end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

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
    until_listening,
)

from vodpress.adapters.queue.decide import hasten_of_asset, revive
from vodpress.adapters.queue.inspect import count_jobs
from vodpress.adapters.queue.jobs import QueueJobs
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
