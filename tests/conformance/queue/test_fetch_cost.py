"""What a fetch costs, in pages of the database that it touches: the same from the first job to the last."""

from __future__ import annotations

import statistics

import pytest
from psycopg import AsyncConnection
from tests.conformance.queue.workers import Connection

from vodpress.domain.job import Queue

JOBS = 2000
SAMPLE = 100
FETCH = """
    EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
    SELECT * FROM vodpress_fetch_job('light', ARRAY['package'], NULL, gen_random_uuid())
"""


async def pages_of_a_fetch(connection: Connection) -> int:
    """How many pages one fetch touches, in the cache or not. It must find a job."""
    row = await (await connection.execute(FETCH)).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    assert plan["Actual Rows"] == 1
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def drain(database: str, *, analysed: str, beside_a_long_transaction: bool = False) -> list[int]:
    """Pages of each fetch, for a queue that is filled at once and emptied."""
    async with (
        await AsyncConnection.connect(database, autocommit=True) as connection,
        await AsyncConnection.connect(database) as long,
    ):
        await connection.execute("ALTER TABLE procrastinate_jobs SET (autovacuum_enabled = off)")
        if analysed == "empty":
            await connection.execute("ANALYZE procrastinate_jobs")
        await connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, unique_key) "
            "SELECT %s, 'package', number::text FROM generate_series(1, %s) AS number",
            (Queue.LIGHT, JOBS),
        )
        if analysed == "full":
            await connection.execute("ANALYZE procrastinate_jobs")
        if beside_a_long_transaction:  # what is dead for all others must be kept for it
            await long.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await long.execute("SELECT count(*) FROM procrastinate_jobs")
        return [await pages_of_a_fetch(connection) for _ in range(JOBS)]


@pytest.mark.parametrize("analysed", ["never", "empty", "full"])
async def test_the_last_fetch_costs_what_the_first_one_did(database: str, analysed: str) -> None:
    pages = await drain(database, analysed=analysed)
    first, last = statistics.median(pages[:SAMPLE]), statistics.median(pages[-SAMPLE:])
    assert last < 2 * first < JOBS / 10, "a look at every job that waits would be hundreds of pages"


async def test_a_long_transaction_elsewhere_does_not_make_it_quadratic(database: str) -> None:
    pages = await drain(database, analysed="empty", beside_a_long_transaction=True)
    first, last = statistics.median(pages[:SAMPLE]), statistics.median(pages[-SAMPLE:])
    assert last < 4 * first
