"""Unique keys while their job is on its way from one state to another."""

from __future__ import annotations

import asyncio

import pytest
from tests.conformance.queue.workers import (
    SETTLERS,
    WAITS_FOR_A_LOCK,
    Pool,
    enqueue,
    fetch_on,
    request,
    settle_as,
    taken,
    until,
)

from vodpress.adapters.queue.decide import cancel_of_asset, revive
from vodpress.adapters.queue.inspect import count_jobs
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.job import JobKind, JobRequest, JobState

ENDS = {"complete", "bury", "discard"}


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("way", sorted(SETTLERS.keys() - {"verify"}))
async def test_enqueueing_waits_for_the_end_of_the_same_key(pool: Pool, way: str, commits: bool) -> None:
    """Work that was asked for while the last of it is being settled is neither lost nor there twice."""
    await enqueue(pool, request())
    claim = await taken(pool)
    async with pool.connection() as connection, connection.transaction(force_rollback=not commits):
        await SETTLERS[way](connection, claim)
        second = asyncio.ensure_future(enqueue(pool, request()))
        await until(pool, WAITS_FOR_A_LOCK)
    assert await second == (1 if commits and way in ENDS else 0)


async def test_enqueueing_waits_for_a_fetch_of_the_same_key(pool: Pool) -> None:
    await enqueue(pool, request())
    async with pool.connection() as connection, connection.transaction():
        assert await fetch_on(connection) is not None
        second = asyncio.ensure_future(enqueue(pool, request()))
        await until(pool, WAITS_FOR_A_LOCK)
    assert await second == 0


@pytest.mark.parametrize("commits", [True, False])
async def test_reviving_waits_for_a_transaction_with_its_key(pool: Pool, commits: bool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    await settle_as(pool, "bury", claim)

    async def revived() -> bool:
        async with pool.connection() as connection, connection.transaction():
            possible = await revive(connection, claim.job_id)
            await connection.execute("SELECT 1")  # the caller's transaction is in order, whatever the answer
            return possible

    async with pool.connection() as connection, connection.transaction(force_rollback=not commits):
        assert await QueueJobs(connection).enqueue(request()) == 1
        second = asyncio.ensure_future(revived())
        await until(pool, WAITS_FOR_A_LOCK)
    assert await second is not commits
    async with pool.connection() as connection:
        assert (await count_jobs(connection))["light", JobState.TODO] == 1


async def test_cancelling_reaches_what_the_job_it_waited_for_enqueued(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2))
    claim = await taken(pool)

    async def cancel() -> int:
        async with pool.connection() as connection, connection.transaction():
            return await cancel_of_asset(connection, "a1")

    async with pool.connection() as connection, connection.transaction():
        await QueueJobs(connection).complete(claim)
        cancelling = asyncio.ensure_future(cancel())
        await until(pool, WAITS_FOR_A_LOCK)
        following = JobRequest(JobKind.THUMBNAILS, {"asset_id": "a1"}, unique_key="following")
        assert await QueueJobs(connection).enqueue(following) == 1
    assert await cancelling == 1
    async with pool.connection() as connection:
        assert await count_jobs(connection) == {
            ("light", JobState.SUCCEEDED): 1,
            ("light", JobState.CANCELLED): 1,
            ("light", JobState.TODO): 1,
        }
