"""The database goes away under a runner: for a moment that costs nothing, or for longer than a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import AsyncConnection
from tests.conformance.queue.workers import (
    DEADLINE_SECONDS,
    Hanging,
    Pool,
    Recorder,
    Rescue,
    enqueue,
    job,
    request,
    running,
)

from vodpress.adapters.queue import settle
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, JobState


async def test_a_lost_connection_costs_no_job(pool: Pool, database: str) -> None:
    """Every connection of the runner is ended under it: it listens and fetches again, and settles each job once."""
    done: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        async with await AsyncConnection.connect(database) as own:
            await settle.complete(own, claim)
        done.put_nowait((args["asset_id"], claim.attempt))

    async with running(pool, work), asyncio.timeout(DEADLINE_SECONDS):
        await enqueue(pool, request(1))
        assert await done.get() == ("a1", 1)
        async with await AsyncConnection.connect(database, autocommit=True) as own:
            await end_sessions(own, database)
            await QueueJobs(own).enqueue(request(2))
        assert await done.get() == ("a2", 1)


async def test_a_job_runs_on_while_its_lease_outlasts_a_lost_database(pool: Pool, database: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    done: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        if args["asset_id"] == "a1":
            begun.set()
            await go_on.wait()
        async with await AsyncConnection.connect(database) as own:
            await settle.complete(own, claim)
        done.put_nowait((args["asset_id"], claim.attempt))

    await enqueue(pool, request(1))
    async with running(pool, work, grace_seconds=0), asyncio.timeout(DEADLINE_SECONDS):
        await begun.wait()
        async with await AsyncConnection.connect(database, autocommit=True) as own:
            await end_sessions(own, database)
            await QueueJobs(own).enqueue(request(2))
        assert await done.get() == ("a2", 1)
        go_on.set()
        assert await done.get() == ("a1", 1)


async def test_jobs_are_stopped_when_the_database_is_away_for_as_long_as_a_lease(
    pool: Pool, database: str, database_server: str
) -> None:
    await enqueue(pool, request())
    hanging, rescue = Hanging(pool), Rescue(pool, lease_seconds=1)
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    async with (
        await AsyncConnection.connect(database_server, autocommit=True) as server,
        running(pool, hanging, lease_seconds=1),
        asyncio.timeout(DEADLINE_SECONDS),
    ):
        old = await hanging.begun.get()
        await server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        await end_sessions(server, database)
        assert await hanging.cancelled.get() == old
        assert hanging.completed.empty()
        await server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())
        rescuing = asyncio.ensure_future(rescue.rescuer.run())
        new = await hanging.completed.get()
        rescuing.cancel()
        await asyncio.gather(rescuing, return_exceptions=True)
    assert new.claim_id != old.claim_id
    assert (await job(pool, new.job_id))[0] is JobState.SUCCEEDED


async def test_a_job_that_could_not_be_settled_for_want_of_a_database_is_handed_back(pool: Pool) -> None:
    await enqueue(pool, request())
    claims: list[Claim] = []
    recorder = Recorder(pool)

    async def work(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        claims.append(claim)
        if len(claims) == 1:
            raise Failure("database_unavailable")
        await recorder(kind, claim, args)

    async with running(pool, work), asyncio.timeout(DEADLINE_SECONDS):
        assert await recorder.done.get() == "a1"
    assert [claim.attempt for claim in claims] == [1, 1], "the attempt was given back"


async def end_sessions(connection: AsyncConnection[Any], database: str) -> None:
    """End every session in a database but the one that asks."""
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()", (name,)
    )
