"""A task that is cancelled ends as cancelled, also when the database goes away in the same moment."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from vodpress.adapters.db.unit_of_work import Pool, PostgresUnitOfWork
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.database import open_pool
from vodpress.domain.failure import Failure


async def test_a_lost_connection_does_not_take_the_place_of_a_cancellation(pool: Pool, database: str) -> None:
    process_id: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def ask() -> None:
        async with PostgresUnitOfWork(pool, QueueJobs).begin() as transaction:
            process_id.set_result(transaction.session.connection.info.backend_pid)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:  # as psycopg does: it asks the server to end the statement, and that fails
                await asyncio.to_thread(_end, database, await process_id)
                await transaction.session.all("SELECT 1")

    task = asyncio.create_task(ask())
    await process_id
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_transaction_that_stood_still_for_too_long_is_a_matter_of_the_database(database: str) -> None:
    async with open_pool(database, connections=1, idle_seconds=0.05) as pool:
        with pytest.raises(Failure) as raised:
            await _stand_still(pool, database)
    assert raised.value.code == "database_unavailable"


async def _stand_still(pool: Pool, database: str) -> None:
    async with PostgresUnitOfWork(pool, QueueJobs).begin() as transaction:
        await asyncio.to_thread(_until_ended, database, transaction.session.connection.info.backend_pid)
        await transaction.session.all("SELECT 1")


def _end(database: str, process_id: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [process_id])
    _until_ended(database, process_id)


def _until_ended(database: str, process_id: int) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        while connection.execute("SELECT pid FROM pg_stat_activity WHERE pid = %s", [process_id]).fetchone():
            pass
