"""Bulk encoding: it waits for as long as other encoding does, however much of it there is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.conformance.queue.workers import DEADLINE_SECONDS, Pool, enqueue, settle_as

from vodpress.adapters.queue.runner import QueueRunner
from vodpress.domain.job import Claim, JobKind, JobRequest, Queue

SOON_SECONDS = 0.05


def encode(number: int, *, bulk: bool = False) -> JobRequest:
    kind = JobKind.STITCH
    return JobRequest(kind, {"asset_id": f"a{number}", "number": number}, unique_key=f"key:{number}", bulk=bulk)


async def run_until(pool: Pool, served: Mapping[Queue, int], *, jobs: int, on_job: Any = None) -> list[int]:
    """Serve the queues until so many jobs are done; their numbers in the order in which they were taken."""
    taken: list[int] = []
    stop = asyncio.Event()

    async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        taken.append(args["number"])
        if on_job is not None:
            await on_job(args["number"])
        await settle_as(pool, "complete", claim)
        if len(taken) == jobs:
            stop.set()

    runner = QueueRunner(
        pool, execute=execute, concurrency=served, lease_seconds=30, grace_seconds=5, poll_seconds=SOON_SECONDS
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        await runner.run(stop)
    return taken


async def test_no_bulk_job_begins_while_another_encode_job_waits(pool: Pool) -> None:
    await enqueue(pool, *(encode(number, bulk=True) for number in (1, 2, 3)))
    await enqueue(pool, *(encode(number) for number in (11, 12, 13)))
    taken = await run_until(pool, {Queue.ENCODE: 1, Queue.ENCODE_BULK: 1}, jobs=6)
    last = max(taken.index(number) for number in (11, 12, 13))
    before_last = {number for number in taken[:last] if number < 10}
    assert before_last <= {1}, "one may begin when the last of the others has been taken, none while one waits"
    assert sorted(taken) == [1, 2, 3, 11, 12, 13]


async def test_encode_jobs_that_come_while_bulk_runs_go_before_the_rest_of_it(pool: Pool) -> None:
    await enqueue(pool, *(encode(number, bulk=True) for number in range(1, 6)))
    come = asyncio.Event()

    async def on_job(number: int) -> None:
        if number == 1:
            await enqueue(pool, encode(11), encode(12))
            await come.wait()
        elif number == 12:
            come.set()

    taken = await run_until(pool, {Queue.ENCODE: 1, Queue.ENCODE_BULK: 1}, jobs=7, on_job=on_job)
    assert taken[:3] == [1, 11, 12], "a bulk job that runs holds up nothing"


async def test_a_failure_that_waits_for_its_time_does_not_hold_up_bulk(pool: Pool) -> None:
    await enqueue(pool, encode(11), encode(1, bulk=True))
    async with pool.connection() as connection:
        await connection.execute(
            "UPDATE procrastinate_jobs SET scheduled_at = now() + interval '1 hour' WHERE queue_name = 'encode'"
        )
    assert await run_until(pool, {Queue.ENCODE: 1, Queue.ENCODE_BULK: 1}, jobs=1) == [1]


async def test_who_serves_what_is_on_record_and_goes_with_the_worker(pool: Pool) -> None:
    await enqueue(pool, encode(1))
    seen: list[tuple[Any, ...]] = []

    async def on_job(_number: int) -> None:
        async with pool.connection() as connection:
            cursor = await connection.execute("SELECT queue, concurrency, process_id FROM workers ORDER BY queue")
            seen.extend(await cursor.fetchall())

    await run_until(pool, {Queue.ENCODE: 2, Queue.LIGHT: 3}, jobs=1, on_job=on_job)
    assert [row[:2] for row in seen] in (
        [("encode", 2)],
        [("encode", 2), ("light", 3)],
    )  # others may come a moment later
    async with pool.connection() as connection:
        assert (await (await connection.execute("SELECT count(*) FROM workers")).fetchone()) == (0,)
