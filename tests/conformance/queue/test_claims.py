"""Claims: only the live one may settle a job, and a job's life follows its transition table."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import psycopg
import pytest
from tests.conformance.queue.workers import (
    SETTLERS,
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

from vodpress.adapters.queue.decide import cancel_of_asset, revive
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.failure import Failure, LeaseLost
from vodpress.domain.job import JOB, Claim, JobState

Move = Callable[[Pool, Claim], Awaitable[object]]


@pytest.mark.parametrize("name", SETTLERS)
async def test_a_worker_that_comes_back_from_the_dead_changes_nothing(pool: Pool, name: str) -> None:
    await enqueue(pool, request())
    old = await taken(pool)
    await silence(pool)
    assert await Rescue(pool).rescue() == 1
    with pytest.raises(LeaseLost):
        await settle_as(pool, name, old)
    new = await taken(pool)
    assert (new.job_id, new.attempt) == (old.job_id, 2)
    with pytest.raises(LeaseLost):
        await settle_as(pool, name, old)
    assert await job(pool, new.job_id) == (JobState.DOING, 2)
    await settle_as(pool, name, new)


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
    await settle_as(pool, name, claim)
    assert await job(pool, claim.job_id) == (state, attempt)
    for again in SETTLERS:
        with pytest.raises(LeaseLost):
            await settle_as(pool, again, claim)


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
    assert (live.running, live.waiting, live.delayed) == (0, 0, 1)
    assert (live.last_failure_kind, live.last_failure_code) == ("not_yet", "disk_reserve_short")


def settling(name: str) -> Move:
    async def move(pool: Pool, claim: Claim) -> None:
        await settle_as(pool, name, claim)

    return move


async def _fetch(pool: Pool, claim: Claim) -> None:
    await fetch(pool)


async def _cancel(pool: Pool, claim: Claim) -> None:
    async with pool.connection() as connection, connection.transaction():
        await cancel_of_asset(connection, "a1")


async def _revive(pool: Pool, claim: Claim) -> None:
    async with pool.connection() as connection, connection.transaction():
        await revive(connection, claim.job_id)


async def _rescue(pool: Pool, claim: Claim) -> None:
    await Rescue(pool, attempts=3).rescue()


async def _give_up(pool: Pool, claim: Claim) -> None:
    await Rescue(pool, attempts=1).rescue()


MOVES: dict[JobState, dict[str, Move]] = {
    JobState.TODO: {
        **{name: settling(name) for name in ("snooze", "retry", "hand_back")},
        "rescue": _rescue,
        "revive": _revive,
    },
    JobState.DOING: {"fetch": _fetch},
    JobState.SUCCEEDED: {"complete": settling("complete")},
    JobState.FAILED: {"bury": settling("bury"), "give up": _give_up},
    JobState.CANCELLED: {"discard": settling("discard"), "cancel": _cancel},
}
"""Every statement that changes a job's state, under the state it leads to."""


async def put(pool: Pool, state: JobState, *, queue: str, asset_id: str, heartbeat: str) -> Claim:
    """A job in a state by plain SQL. A running one has a worker with that last sign of life."""
    doing, claim_id = state is JobState.DOING, str(uuid.uuid4())
    async with pool.connection() as connection:
        row = await (
            await connection.execute(
                """
                WITH worker AS (
                    INSERT INTO procrastinate_workers (last_heartbeat) VALUES (%s::timestamptz) RETURNING id)
                INSERT INTO procrastinate_jobs
                    (queue_name, task_name, args, unique_key, status, attempts, claim_id, worker_id)
                VALUES (%s, 'package', jsonb_build_object('asset_id', %s::text), %s, %s, %s, %s,
                    CASE WHEN %s THEN (SELECT id FROM worker) END)
                RETURNING id
                """,
                (
                    heartbeat,
                    queue,
                    asset_id,
                    claim_id,
                    state,
                    0 if state is JobState.TODO else 1,
                    claim_id if doing else None,
                    doing,
                ),
            )
        ).fetchone()
    assert row is not None
    return Claim(row[0], claim_id, 1)


async def all_jobs(pool: Pool) -> dict[int, Mapping[str, Any]]:
    async with pool.connection() as connection:
        rows = await (await connection.execute("SELECT id, to_jsonb(job) FROM procrastinate_jobs AS job")).fetchall()
    return dict(rows)


def test_every_state_can_be_reached() -> None:
    assert set(MOVES) == set(JobState)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(JobState, JobState)))
async def test_every_pair_of_states(pool: Pool, source: JobState, target: JobState) -> None:
    """What the table allows, some statement does; what it does not, none does; and none touches another job."""
    for state in JobState:
        await put(pool, state, queue="encode", asset_id="other", heartbeat="now")
    moved = set()
    for name, move in MOVES[target].items():
        claim = await put(pool, source, queue="light", asset_id="a1", heartbeat="-infinity")
        before = await all_jobs(pool)
        try:
            await move(pool, claim)
        except LeaseLost:
            assert await all_jobs(pool) == before
        after = await all_jobs(pool)
        if after[claim.job_id] != before[claim.job_id]:
            assert after[claim.job_id]["status"] == target
            moved.add(name)
        del before[claim.job_id], after[claim.job_id]
        assert after == before
        async with pool.connection() as connection:
            await connection.execute("DELETE FROM procrastinate_jobs WHERE id = %s", (claim.job_id,))
    assert bool(moved) == JOB.allows(source, target), f"{source} became {target} by {moved}"


@pytest.mark.parametrize(
    "change",
    [
        "status = 'doing', attempts = 1",
        "claim_id = gen_random_uuid()",
        "status = 'doing', claim_id = gen_random_uuid(), attempts = 0",
        "worker_id = (SELECT procrastinate_register_worker_v1())",
        "attempts = -1",
        "status = 'aborted'",
        "status = 'aborting'",
        "lock = 'l'",
        "queueing_lock = 'l'",
        "unique_key = NULL",
    ],
)
async def test_the_database_refuses_a_job_that_makes_no_sense(pool: Pool, change: str) -> None:
    await enqueue(pool, request())
    async with pool.connection() as connection:
        with pytest.raises((psycopg.errors.CheckViolation, psycopg.errors.NotNullViolation)):
            async with connection.transaction():
                await connection.execute(f"UPDATE procrastinate_jobs SET {change}".encode())


@pytest.mark.parametrize(
    "function",
    [
        "finish_job_v1(%s, 'succeeded', false)",
        "finish_job_v1(%s, 'failed', false)",
        "retry_job_v2(%s, now(), NULL, NULL, NULL)",
    ],
)
async def test_the_database_refuses_what_the_engine_would_do_to_a_claimed_job(pool: Pool, function: str) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    async with pool.connection() as connection:
        with pytest.raises(psycopg.errors.CheckViolation):
            async with connection.transaction():
                await connection.execute(f"SELECT procrastinate_{function}".encode(), (claim.job_id,))
    assert await job(pool, claim.job_id) == (JobState.DOING, 1)


async def test_a_key_that_runs_again_keeps_an_old_job_from_being_revived(pool: Pool) -> None:
    await enqueue(pool, request())
    claim = await taken(pool)
    await settle_as(pool, "bury", claim)
    await enqueue(pool, request())
    async with pool.connection() as connection, connection.transaction():
        assert not await revive(connection, claim.job_id)
    assert await job(pool, claim.job_id) == (JobState.FAILED, 1)
