"""What people are told of the queue: lists, counts, and why an asset's jobs wait."""

from __future__ import annotations

from tests.conformance.queue.workers import Pool, enqueue, fetch, request, settle_as, taken

from vodpress.adapters.queue.inspect import count_jobs, list_jobs
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, JobKind, JobRecord, JobRequest, JobState, Queue

STITCH = JobRequest(JobKind.STITCH, {"asset_id": "a9", "rendition": "720p"}, unique_key="stitch")


async def fail(pool: Pool, claim: Claim, code: str, *, delay_seconds: float) -> None:
    """An attempt that fails and is repeated, as the executor does it."""
    async with pool.connection() as connection, connection.transaction():
        jobs = QueueJobs(connection)
        await jobs.record_failure(claim, Failure(code), f"Traceback of {code}")
        await jobs.retry(claim, delay_seconds)


async def test_the_newest_jobs_first_and_no_more_than_asked_for(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2), STITCH)
    async with pool.connection() as connection:
        assert [row.args["asset_id"] for row in await list_jobs(connection)] == ["a9", "a2", "a1"]
        assert [row.args["asset_id"] for row in await list_jobs(connection, limit=2)] == ["a9", "a2"]


async def test_a_list_says_what_a_job_is(pool: Pool) -> None:
    await enqueue(pool, STITCH)
    claim = await taken(pool, queue=Queue.ENCODE)
    async with pool.connection() as connection:
        assert await list_jobs(connection) == [
            JobRecord(claim.job_id, "stitch", "encode", JobState.DOING, 1, {"asset_id": "a9", "rendition": "720p"})
        ]


async def test_jobs_by_queue_and_by_state(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2), request(3), STITCH)
    await taken(pool)
    await settle_as(pool, "bury", await taken(pool))
    async with pool.connection() as connection:
        listed = {
            (queue, state): [row.args["asset_id"] for row in await list_jobs(connection, queue=queue, state=state)]
            for queue in (None, Queue.LIGHT, Queue.ENCODE, Queue.INGEST)
            for state in (None, JobState.TODO, JobState.FAILED)
        }
        counts = await count_jobs(connection)
    assert listed == {
        (None, None): ["a9", "a3", "a2", "a1"],
        (None, JobState.TODO): ["a9", "a3"],
        (None, JobState.FAILED): ["a2"],
        (Queue.LIGHT, None): ["a3", "a2", "a1"],
        (Queue.LIGHT, JobState.TODO): ["a3"],
        (Queue.LIGHT, JobState.FAILED): ["a2"],
        (Queue.ENCODE, None): ["a9"],
        (Queue.ENCODE, JobState.TODO): ["a9"],
        (Queue.ENCODE, JobState.FAILED): [],
        (Queue.INGEST, None): [],
        (Queue.INGEST, JobState.TODO): [],
        (Queue.INGEST, JobState.FAILED): [],
    }
    assert counts == {
        ("light", JobState.DOING): 1,
        ("light", JobState.FAILED): 1,
        ("light", JobState.TODO): 1,
        ("encode", JobState.TODO): 1,
    }


async def test_every_attempt_that_failed_is_kept(pool: Pool) -> None:
    await enqueue(pool, request(1), request(2))
    for code in ("tool_hung", "disk_full"):
        await fail(pool, await taken(pool), code, delay_seconds=0)
    async with pool.connection() as connection:
        rows = await (
            await connection.execute("SELECT attempt, kind, code, traceback FROM job_failures ORDER BY id")
        ).fetchall()
        live = await QueueJobs(connection).live_of_asset("a1")
        other = await QueueJobs(connection).live_of_asset("a2")
    assert rows == [
        (1, "infrastructure", "tool_hung", "Traceback of tool_hung"),
        (2, "infrastructure", "disk_full", "Traceback of disk_full"),
    ]
    assert (live.last_failure_code, live.last_failure_message) == ("disk_full", Failure("disk_full").message)
    assert other.last_failure_code is None, "it has failed at nothing"


async def test_live_jobs_by_what_they_do(pool: Pool) -> None:
    kinds = [JobKind.PACKAGE, JobKind.THUMBNAILS, JobKind.STITCH, JobKind.ENCODE, JobKind.INGEST]
    await enqueue(pool, *(JobRequest(kind, {"asset_id": "a1"}, unique_key=kind) for kind in kinds))
    await fail(pool, await taken(pool), "tool_hung", delay_seconds=3600)  # delayed
    await taken(pool)  # running
    await settle_as(pool, "complete", await taken(pool, queue=Queue.ENCODE))  # over
    await settle_as(pool, "hand_back", await taken(pool, queue=Queue.ENCODE))  # waiting, as the last one
    async with pool.connection() as connection:
        live = await QueueJobs(connection).live_of_asset("a1")
        assert (live.running, live.waiting, live.delayed, live.total) == (1, 2, 1, 4)
        assert live.last_failure_code == "tool_hung"
        nothing = await QueueJobs(connection).live_of_asset("a7")
        assert (nothing.running, nothing.waiting, nothing.delayed, nothing.last_failure_code) == (0, 0, 0, None)


async def test_a_failure_of_a_job_that_is_over_is_no_reason_to_wait(pool: Pool) -> None:
    await enqueue(pool, request())
    await fail(pool, await taken(pool), "tool_hung", delay_seconds=0)
    await settle_as(pool, "complete", await taken(pool))
    assert await fetch(pool) is None
    async with pool.connection() as connection:
        live = await QueueJobs(connection).live_of_asset("a1")
        assert (live.total, live.last_failure_code) == (0, None)
