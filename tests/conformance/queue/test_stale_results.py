"""A worker that was stopped in the middle of its transaction, and continues when its job has gone on elsewhere."""

from __future__ import annotations

import pytest
from tests.conformance.queue.workers import SETTLERS, Pool, Rescue, enqueue, job, request, settle_as, silence, taken

from vodpress.adapters.db.unit_of_work import PostgresTransaction, PostgresUnitOfWork
from vodpress.adapters.queue.decide import cancel_of_asset
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import LeaseLost
from vodpress.domain.job import Claim, JobState

TRACES = "SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM procrastinate_jobs)"


async def record(transaction: PostgresTransaction) -> None:
    """A result, as a stage would write it before it settles its job."""
    await transaction.emit(Event(EventType.ASSET_DELETED, "a1", {}))
    assert await transaction.jobs.enqueue(request(2)) == 1


async def traces(pool: Pool) -> tuple[int, int]:
    """Events and jobs."""
    async with pool.connection() as connection:
        row = await (await connection.execute(TRACES)).fetchone()
    assert row is not None
    return row[0], row[1]


async def elsewhere(pool: Pool, happened: str) -> None:
    """What others did with the job meanwhile."""
    if happened == "cancelled":
        async with pool.connection() as connection, connection.transaction():
            assert await cancel_of_asset(connection, "a1") == 1
        return
    await silence(pool)
    assert await Rescue(pool).rescue() == 1
    if happened != "rescued":
        new = await taken(pool)
        if happened == "done":
            await settle_as(pool, "complete", new)


@pytest.mark.parametrize("happened", ["rescued", "runs", "done", "cancelled"])
@pytest.mark.parametrize("way", SETTLERS)
async def test_nothing_is_left_of_a_result_that_comes_too_late(pool: Pool, way: str, happened: str) -> None:
    await enqueue(pool, request())
    old = await taken(pool)
    found: list[tuple[JobState, int]] = []

    async def late() -> None:
        async with PostgresUnitOfWork(pool, QueueJobs).begin() as transaction:
            await record(transaction)
            await elsewhere(pool, happened)
            found.append(await job(pool, old.job_id))
            await SETTLERS[way](transaction.session.connection, old)

    with pytest.raises(LeaseLost):
        await late()
    assert await traces(pool) == (0, 1)
    assert [await job(pool, old.job_id)] == found


async def test_a_result_in_time_is_there_with_its_settlement(pool: Pool) -> None:
    """What the test above would see if the claim were live."""
    await enqueue(pool, request())
    claim = await taken(pool)
    async with PostgresUnitOfWork(pool, QueueJobs).begin() as transaction:
        await record(transaction)
        await transaction.jobs.complete(claim)
    assert await traces(pool) == (1, 2)
    assert await job(pool, claim.job_id) == (JobState.SUCCEEDED, 1)


async def test_a_verified_claim_stays_live_until_the_transaction_ends(pool: Pool) -> None:
    """Though its worker is taken for dead at that moment."""
    await enqueue(pool, request())
    claim = await taken(pool)
    async with PostgresUnitOfWork(pool, QueueJobs).begin() as transaction:
        await transaction.jobs.verify(claim)
        await silence(pool)
        assert await Rescue(pool).rescue() == 0
        await transaction.jobs.complete(claim)
    assert await job(pool, claim.job_id) == (JobState.SUCCEEDED, 1)


async def test_a_claim_is_for_one_job(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2))
    first, second = await taken(pool), await taken(pool)
    for way in SETTLERS:
        with pytest.raises(LeaseLost):
            await settle_as(pool, way, Claim(first.job_id, second.claim_id, 1))
    assert await job(pool, first.job_id) == (JobState.DOING, 1)
    assert await job(pool, second.job_id) == (JobState.DOING, 1)
