"""Jobs enqueued in the very moments in which a worker neither looks nor listens; nothing polls here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from tests.conformance.queue.workers import (
    DEADLINE_SECONDS,
    WAITS_FOR_A_LOCK,
    Connection,
    Pool,
    Recorder,
    enqueue,
    request,
    running,
    until,
    until_listening,
)

ROUNDS = 20
GATE = 1
SLOW_FETCH = f"""
    ALTER FUNCTION vodpress_fetch_job(text, text[], bigint, uuid) RENAME TO fetch_job_at_once;
    CREATE SEQUENCE empty_looks;
    CREATE FUNCTION vodpress_fetch_job(text, text[], bigint, uuid) RETURNS SETOF procrastinate_jobs
    LANGUAGE plpgsql AS $$
    BEGIN
        RETURN QUERY SELECT * FROM fetch_job_at_once($1, $2, $3, $4);
        IF NOT FOUND THEN
            PERFORM nextval('empty_looks');
            PERFORM pg_advisory_xact_lock_shared({GATE});
        END IF;
    END;
    $$;
"""
"""The fetch, with a pause between an empty look and its answer for as long as somebody holds the gate."""
CHANNEL = "procrastinate_queue_v1#light"
KICK = '{"type": "job_inserted", "job_id": 0}'


async def slow_fetch(pool: Pool) -> None:
    async with pool.connection() as connection:
        await connection.execute(SLOW_FETCH.encode())


@asynccontextmanager
async def connected(database: str) -> AsyncIterator[Connection]:
    async with await AsyncConnection.connect(database, autocommit=True) as connection:
        yield connection


async def heard_of_job(listener: Connection) -> None:
    """Wait for the notification of a job; kicks do not count."""
    async with aclosing(listener.notifies()) as notifications:
        async for notification in notifications:
            if notification.payload != KICK:
                return


async def test_a_job_that_comes_between_an_empty_look_and_its_answer(pool: Pool, database: str) -> None:
    await slow_fetch(pool)
    recorder = Recorder(pool)
    async with (
        connected(database) as gate,
        connected(database) as listener,
        running(pool, recorder),
        asyncio.timeout(DEADLINE_SECONDS),
    ):
        await until_listening(pool)
        await listener.execute(f'LISTEN "{CHANNEL}"'.encode())
        for number in range(ROUNDS):
            await gate.execute("SELECT pg_advisory_lock(%s)", (GATE,))
            await gate.execute("SELECT pg_notify(%s, %s)", (CHANNEL, KICK))
            await until(pool, WAITS_FOR_A_LOCK)  # it has looked, and found nothing
            await enqueue(pool, request(number))
            await heard_of_job(listener)  # and so has the runner, or it will in a moment
            await gate.execute("SELECT pg_advisory_unlock(%s)", (GATE,))
            assert await recorder.done.get() == f"a{number}"


@asynccontextmanager
async def reluctant(database: str) -> AsyncIterator[tuple[Pool, asyncio.Event]]:
    """A pool with a few connections, beside which another one is made only while the event is set."""
    may = asyncio.Event()
    may.set()

    class Connecting(AsyncConnection[Any]):
        @classmethod
        async def connect(cls, *args: Any, **keywords: Any) -> Any:
            await may.wait()
            return await super().connect(*args, **keywords)

    connection_class: type[Connection] = Connecting
    async with AsyncConnectionPool(
        database, connection_class=connection_class, min_size=3, max_size=3, open=False
    ) as pool:
        await pool.wait()
        yield pool, may


async def test_a_job_that_comes_between_the_first_look_and_listening(pool: Pool, database: str) -> None:
    """The connection for listening takes longer than the first fetch."""
    await slow_fetch(pool)
    recorder = Recorder(pool)
    async with reluctant(database) as (own, may):
        may.clear()
        async with running(own, recorder), asyncio.timeout(DEADLINE_SECONDS):
            await until(pool, "SELECT FROM empty_looks WHERE is_called")
            await enqueue(pool, request())
            may.set()
            assert await recorder.done.get() == "a1"


async def test_a_job_that_comes_while_listening_is_interrupted(pool: Pool, database: str) -> None:
    """The connection for listening is lost alone; the job comes before there is another."""
    recorder = Recorder(pool)
    async with (
        reluctant(database) as (own, may),
        running(own, recorder),
        connected(database) as other,
        asyncio.timeout(DEADLINE_SECONDS),
    ):
        await until_listening(pool)
        may.clear()
        await other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query ~ '^LISTEN'"
        )
        await until_listening(pool, runners=0)
        await enqueue(pool, request(1))
        may.set()
        assert await recorder.done.get() == "a1"
        await until_listening(pool)
        await enqueue(pool, request(2))
        assert await recorder.done.get() == "a2", "it listens as before"
