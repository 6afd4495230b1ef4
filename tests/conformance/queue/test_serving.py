"""What a runner takes, and what it leaves to others."""

from __future__ import annotations

import asyncio

from tests.conformance.queue.workers import (
    DEADLINE_SECONDS,
    NEVER_SECONDS,
    Hanging,
    Pool,
    Recorder,
    enqueue,
    request,
    running,
)

from vodpress.adapters.queue.inspect import count_jobs, list_jobs
from vodpress.adapters.queue.runner import QueueRunner
from vodpress.domain.job import JobKind, JobRequest, JobState, Queue


async def test_it_takes_nothing_from_queues_that_it_does_not_serve(pool: Pool) -> None:
    """Nor of kinds that it does not know, though both were there first and are first in their queues."""
    recorder = Recorder(pool)
    await enqueue(pool, JobRequest(JobKind.STITCH, {"asset_id": "a9"}, unique_key="not served"))
    async with pool.connection() as connection:
        await connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args, unique_key, priority) "
            "VALUES ('light', 'hologram', '{\"asset_id\": \"a8\"}', 'k', 100)"
        )
    async with running(pool, recorder), asyncio.timeout(DEADLINE_SECONDS):
        for number in (1, 2):
            await enqueue(pool, request(number))
            assert await recorder.done.get() == f"a{number}"
    async with pool.connection() as connection:
        left = [(row.kind, row.attempt) for row in await list_jobs(connection, state=JobState.TODO)]
    assert left == [("hologram", 0), ("stitch", 0)]


async def test_a_busy_queue_holds_up_no_other_of_the_same_process(pool: Pool) -> None:
    hanging, stop = Hanging(pool), asyncio.Event()
    runner = QueueRunner(
        pool,
        execute=hanging,
        concurrency={Queue.LIGHT: 1, Queue.ENCODE: 1},
        lease_seconds=30,
        grace_seconds=0,
        poll_seconds=NEVER_SECONDS,
    )
    task = asyncio.ensure_future(runner.run(stop))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await enqueue(pool, request(1), request(2))
        await hanging.begun.get()
        await enqueue(pool, JobRequest(JobKind.STITCH, {"asset_id": "a9"}, unique_key="other queue"))
        await hanging.completed.get()
        async with pool.connection() as connection:
            counts = await count_jobs(connection)
        stop.set()
        await task
    assert counts == {
        ("light", JobState.DOING): 1,
        ("light", JobState.TODO): 1,
        ("encode", JobState.SUCCEEDED): 1,
    }
