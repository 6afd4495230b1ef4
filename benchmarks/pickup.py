"""How soon a worker takes a job after the transaction that enqueued it has committed, against an empty query."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.homes import temporary_folder
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.adapters.queue.runner import QueueRunner
from vodpress.database import open_database, open_pool
from vodpress.domain.job import Claim, JobKind, JobRequest, Queue
from vodpress.settings import Settings
from vodpress.telemetry import configure_logging

JOBS = 200


def measure() -> Iterator[str]:
    """Median and 95th percentile over jobs that are enqueued one at a time on an idle queue."""
    with temporary_folder() as folder:
        latencies, query = asyncio.run(_measure(Settings(home=folder / "home")))
    middle, high = statistics.median(latencies), statistics.quantiles(latencies, n=20)[-1]
    yield (
        f"queue pickup: median {middle * 1000:.1f} ms, 95 % {high * 1000:.1f} ms "
        f"({middle / query:.1f}× and {high / query:.1f}× an empty query)"
    )


async def _measure(settings: Settings) -> tuple[list[float], float]:
    latencies: list[float] = []
    taken = asyncio.Event()
    moment = 0.0

    configure_logging("error", "text")
    async with open_database(settings) as conninfo, open_pool(conninfo, connections=8) as pool:

        async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
            del kind, args
            latencies.append(time.perf_counter() - moment)
            async with pool.connection() as connection, connection.transaction():
                await QueueJobs(connection).complete(claim)
            taken.set()

        runner = QueueRunner(
            pool, execute=execute, concurrency={Queue.LIGHT: 1}, lease_seconds=30, grace_seconds=5, poll_seconds=60
        )
        stop = asyncio.Event()
        running = asyncio.ensure_future(runner.run(stop))
        for number in range(JOBS):
            taken.clear()
            async with pool.connection() as connection, connection.transaction():
                request = JobRequest(JobKind.PACKAGE, {"asset_id": str(number)}, unique_key=f"bench:{number}")
                await QueueJobs(connection).enqueue(request)
            moment = time.perf_counter()
            await taken.wait()
        stop.set()
        await running
        async with pool.connection() as connection:
            begun = time.perf_counter()
            for _ in range(JOBS):
                await connection.execute("SELECT 1")
            query = (time.perf_counter() - begun) / JOBS
    return latencies[1:], query
