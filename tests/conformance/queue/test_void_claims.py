"""Handlers whose claim is void, or that end with their job unsettled: stopped, handed back or left to rescue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.conformance.queue.workers import (
    DEADLINE_SECONDS,
    WAITS_FOR_A_LOCK,
    Hanging,
    Pool,
    Recorder,
    Rescue,
    enqueue,
    job,
    request,
    running,
    settle_as,
    until,
    until_listening,
)

from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.failure import LeaseLost
from vodpress.domain.job import Claim, JobState


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


async def test_a_handler_that_cleans_up_is_not_cancelled_again(pool: Pool) -> None:
    await enqueue(pool, request())
    begun, cleaning, go_on, clean = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await go_on.wait()
            clean.set()

    async with running(pool, work, lease_seconds=1), asyncio.timeout(DEADLINE_SECONDS):
        await begun.wait()
        async with pool.connection() as connection, connection.transaction():
            await QueueJobs(connection).cancel_of_asset("a1")
        await cleaning.wait()
        async with pool.connection() as connection:
            await connection.execute("CREATE TABLE seen AS SELECT last_heartbeat FROM procrastinate_workers")
        four_beats_later = (
            "SELECT FROM procrastinate_workers AS worker, seen "
            "WHERE worker.last_heartbeat > seen.last_heartbeat + interval '1 second'"
        )
        await until(pool, four_beats_later)
        go_on.set()
        await clean.wait()


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

    async with running(pool, work, lease_seconds=2), asyncio.timeout(DEADLINE_SECONDS):
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


async def test_a_hand_back_is_brought_to_its_end(pool: Pool) -> None:
    """A shutdown comes while the job is being handed back already."""
    await enqueue(pool, request())
    hanging = Hanging(pool)
    async with running(pool, hanging, grace_seconds=0) as stop, asyncio.timeout(DEADLINE_SECONDS):
        claim = await hanging.begun.get()
        await until_listening(pool)
        async with pool.connection() as connection, connection.transaction():
            await connection.execute("SELECT FROM procrastinate_jobs FOR UPDATE")
            abort = f'{{"type": "abort_job_requested", "job_id": {claim.job_id}}}'
            async with pool.connection() as other:
                await other.execute("SELECT pg_notify('procrastinate_queue_v1#light', %s)", (abort,))
            await hanging.cancelled.get()
            await until(pool, WAITS_FOR_A_LOCK)
            stop.set()
            await until_listening(pool, runners=0)
            await until(pool, WAITS_FOR_A_LOCK)
    assert await job(pool, claim.job_id) == (JobState.TODO, 0)


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
