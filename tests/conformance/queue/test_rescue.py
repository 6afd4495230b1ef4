"""Rescue: what happens to jobs whose workers died, and that no rescuer harms anyone who lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.conformance.queue.workers import (
    DEADLINE_SECONDS,
    Pool,
    Rescue,
    enqueue,
    fetch,
    job,
    request,
    settle_as,
    silence,
    taken,
)

from vodpress.adapters.db.unit_of_work import PostgresTransaction
from vodpress.domain.job import Claim, JobState

RESCUERS = 4


async def count_workers(pool: Pool) -> int:
    async with pool.connection() as connection:
        row = await (await connection.execute("SELECT count(*) FROM procrastinate_workers")).fetchone()
    return int(row[0]) if row else 0


async def test_a_job_that_kills_its_workers_runs_out_once(pool: Pool) -> None:
    await enqueue(pool, request())
    rescue = Rescue(pool, attempts=3)
    for attempt in (1, 2, 3):
        claim = await taken(pool)
        assert claim.attempt == attempt
        assert rescue.given_up == []
        await silence(pool)
        rescued = await asyncio.gather(*(rescue.rescue() for _ in range(RESCUERS)))
        assert sorted(rescued) == [0] * (RESCUERS - 1) + [1]
    assert rescue.given_up == [claim.job_id]
    assert await job(pool, claim.job_id) == (JobState.FAILED, 3)
    assert await count_workers(pool) == 0, "the dead are forgotten"
    assert await fetch(pool) is None


async def test_rescuers_at_once_rescue_each_job_once(pool: Pool) -> None:
    numbers = range(20)
    await enqueue(pool, *(request(number) for number in numbers))
    for _ in numbers:
        await taken(pool)
    await silence(pool)
    assert sum(await asyncio.gather(*(Rescue(pool).rescue() for _ in range(RESCUERS)))) == len(numbers)
    assert {(await taken(pool)).attempt for _ in numbers} == {2}


async def test_rescue_leaves_the_living_alone(pool: Pool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    assert await Rescue(pool).rescue() == 0
    assert await job(pool, claim.job_id) == (JobState.DOING, 1)
    assert await count_workers(pool) == 1


async def test_a_job_whose_worker_left_without_it_is_rescued(pool: Pool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    async with pool.connection() as connection:
        await connection.execute("DELETE FROM procrastinate_workers")
    assert await Rescue(pool).rescue() == 1
    assert await job(pool, claim.job_id) == (JobState.TODO, 1)


async def test_rescue_passes_by_a_job_that_is_being_settled(pool: Pool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    await silence(pool)
    async with pool.connection() as connection, connection.transaction():
        await connection.execute("SELECT FROM procrastinate_jobs FOR UPDATE")
        assert await asyncio.wait_for(Rescue(pool).rescue(), DEADLINE_SECONDS) == 0
    await settle_as(pool, "complete", claim)


async def test_a_slow_rescuer_takes_no_job_from_a_worker_that_lives(pool: Pool) -> None:
    """Between its look and its lock another rescuer acts, and a living worker takes the job."""
    await enqueue(pool, request())
    await taken(pool)
    await silence(pool)
    new: list[Claim] = []

    class Slow(Rescue):
        begun = 0

        @asynccontextmanager
        async def begin(self) -> AsyncIterator[PostgresTransaction]:
            async with super().begin() as transaction:
                self.begun += 1
                if self.begun == 2:  # the first one looked
                    assert await Rescue(pool).rescue() == 1
                    new.append(await taken(pool))
                yield transaction

    assert await Slow(pool).rescue() == 0
    assert await job(pool, new[0].job_id) == (JobState.DOING, 2)
    await settle_as(pool, "complete", new[0])


async def test_a_job_that_cannot_be_given_up_stands_in_no_other_ones_way(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2))
    first, second = await taken(pool), await taken(pool)
    await silence(pool)

    class Refusing(Rescue):
        async def run_out(
            self, kind: str, claim: Claim, args: Mapping[str, Any], transaction: PostgresTransaction
        ) -> None:
            if claim.job_id == first.job_id:
                raise ValueError("arguments of an older release")
            await super().run_out(kind, claim, args, transaction)

    refusing = Refusing(pool, attempts=1)
    assert await refusing.rescue() == 1
    assert refusing.given_up == [second.job_id]
    assert await job(pool, first.job_id) == (JobState.DOING, 1), "as if nothing had been tried"
    assert await Rescue(pool, attempts=1).rescue() == 1


async def test_a_job_of_a_kind_from_another_release_is_left_to_its_rescuers(pool: Pool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, unique_key, status, claim_id, attempts) "
            "VALUES ('light', 'hologram', 'k', 'doing', gen_random_uuid(), 1)"
        )
    await silence(pool)
    with capture_logs() as logs:
        assert await Rescue(pool).rescue() == 1
    assert [entry["log_level"] for entry in logs] == ["warning"], "nothing is said of the other"
    assert await job(pool, claim.job_id) == (JobState.TODO, 1)


async def test_it_runs_beside_the_queue_until_it_is_cancelled(pool: Pool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    await silence(pool)
    rescue = Rescue(pool, attempts=1)
    running = asyncio.ensure_future(rescue.rescuer.run())
    await asyncio.wait_for(rescue.gave_up.wait(), DEADLINE_SECONDS)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert rescue.given_up == [claim.job_id]
