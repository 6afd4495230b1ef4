"""Enqueueing belongs to the caller's transaction, and a key waits or runs once."""

from __future__ import annotations

import asyncio

import pytest
from tests.conformance.queue.workers import WAITS_FOR_A_LOCK, Pool, enqueue, fetch, request, settle_as, taken, until

from vodpress.adapters.queue.inspect import count_jobs
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.job import JobKind, JobRequest, JobState


async def test_a_rollback_leaves_no_job(pool: Pool) -> None:
    async with pool.connection() as connection, connection.transaction(force_rollback=True):
        assert await QueueJobs(connection).enqueue(request()) == 1
    async with pool.connection() as connection:
        assert await count_jobs(connection) == {}


async def test_nobody_sees_a_job_before_its_transaction_ends(pool: Pool) -> None:
    async with pool.connection() as connection, connection.transaction():
        assert await QueueJobs(connection).enqueue(request()) == 1
        assert await fetch(pool) is None
    assert await fetch(pool) is not None


async def test_a_key_is_there_once_while_it_waits_or_runs(pool: Pool) -> None:
    assert await enqueue(pool, request(), request()) == 1
    assert await enqueue(pool, request()) == 0
    claim = await taken(pool)
    assert await enqueue(pool, request()) == 0
    await settle_as(pool, "complete", claim)
    assert await enqueue(pool, request()) == 1


async def test_a_key_that_is_there_already_costs_the_caller_nothing_else(pool: Pool) -> None:
    await enqueue(pool, request(1))
    async with pool.connection() as connection, connection.transaction():
        assert await QueueJobs(connection).enqueue(request(1), request(2)) == 1
        await connection.execute("SELECT 1")
    async with pool.connection() as connection:
        assert await count_jobs(connection) == {("light", JobState.TODO): 2}


@pytest.mark.parametrize("commits", [True, False])
async def test_a_second_transaction_waits_for_the_first_with_its_key(pool: Pool, commits: bool) -> None:
    async with pool.connection() as connection, connection.transaction(force_rollback=not commits):
        assert await QueueJobs(connection).enqueue(request()) == 1
        second = asyncio.ensure_future(enqueue(pool, request()))
        await until(pool, WAITS_FOR_A_LOCK)
    assert await second == (0 if commits else 1)
    async with pool.connection() as connection:
        assert await count_jobs(connection) == {("light", JobState.TODO): 1}


async def test_of_many_transactions_at_once_one_wins(pool: Pool) -> None:
    added = await asyncio.gather(*(enqueue(pool, request()) for _ in range(8)))
    assert sorted(added) == [0] * 7 + [1]


async def test_live_jobs_of_an_asset(pool: Pool) -> None:
    await enqueue(pool, request(1))
    await taken(pool)
    other = JobRequest(JobKind.THUMBNAILS, {"asset_id": "a1"}, unique_key="other")
    await enqueue(pool, other, request(2))
    async with pool.connection() as connection:
        live = await QueueJobs(connection).live_of_asset("a1")
    assert (live.running, live.waiting, live.delayed, live.total) == (1, 1, 0, 2)
    assert live.last_failure_code is None
