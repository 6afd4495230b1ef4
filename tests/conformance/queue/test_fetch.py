"""Fetching: which job is next, and what finding it costs."""

from __future__ import annotations

import pytest
from tests.conformance.queue.workers import Connection, Pool, enqueue, fetch, fetch_on, request, settle_as, taken

from vodpress.adapters.queue.inspect import list_jobs
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.job import Priority, Queue


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


async def test_a_job_waits_for_its_time_or_until_it_is_hastened(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2))
    first = await taken(pool)
    await settle_as(pool, "retry", first)
    assert (await taken(pool)).job_id != first.job_id
    assert await fetch(pool) is None
    async with pool.connection() as connection, connection.transaction():
        assert await QueueJobs(connection).hasten_of_asset("a1") == 1
    hastened = await taken(pool)
    assert (hastened.job_id, hastened.attempt) == (first.job_id, 2)


@pytest.mark.parametrize("misled_by", ["statistics", "a plan"])
async def test_a_fetch_reads_the_same_few_rows_whatever_was_known_of_the_table(pool: Pool, misled_by: str) -> None:
    """Statistics, or the plan that a session keeps, are from the time when the table was small."""
    fetches = 20
    async with pool.connection() as connection:
        await connection.set_autocommit(True)
        await fill(connection, Queue.ENCODE, 3)
        await connection.execute("ANALYZE procrastinate_jobs")
        if misled_by == "a plan":
            for _ in range(fetches):  # after a few, it plans once and for all
                assert await fetch_on(connection) is None
        await fill(connection, Queue.ENCODE, 5000)  # older, and none of its business
        await fill(connection, Queue.LIGHT, 5000)
        before = await rows_read(connection)
        for _ in range(fetches):
            assert await fetch_on(connection) is not None
        assert await rows_read(connection) - before < fetches * 50
        await connection.set_autocommit(False)


async def fill(connection: Connection, queue: Queue, jobs: int) -> None:
    await connection.execute(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, unique_key) "
        "SELECT %s, 'package', gen_random_uuid() FROM generate_series(1, %s)",
        (queue, jobs),
    )


async def rows_read(connection: Connection) -> int:
    """How many rows of the job table were looked at so far."""
    await connection.execute("SELECT pg_stat_force_next_flush()")
    row = await (
        await connection.execute(
            "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables "
            "WHERE relname = 'procrastinate_jobs'"
        )
    ).fetchone()
    assert row is not None
    return int(row[0])
