"""One transaction's connection, with the three ways it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import AsyncConnection, InterfaceError, OperationalError
from psycopg.errors import IdleInTransactionSessionTimeout, TransactionTimeout
from psycopg.rows import DictRow, dict_row

CONNECTION_LOST = (OperationalError, InterfaceError, IdleInTransactionSessionTimeout, TransactionTimeout)
"""Errors that say nothing of the statement: the server, or the way to it, was gone."""


def let_cancellation_pass(error: BaseException) -> None:
    """Raise the cancellation of the current task where an error has taken its place.

    psycopg ends a statement on cancellation by asking the server to; when the connection is lost, that fails with an
    error of its own, and whoever waits for the database to come back would never end.

    Raises:
        CancelledError: from `error`.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


class Session:
    """Runs named queries on the connection of one transaction."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection

    async def one(self, query: LiteralString, **parameters: object) -> DictRow | None:
        """The first row, or `None`."""
        async with self.connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(query, parameters)
            return await cursor.fetchone()

    async def all(self, query: LiteralString, **parameters: object) -> Sequence[DictRow]:
        """Every row."""
        async with self.connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(query, parameters)
            return await cursor.fetchall()

    async def change(self, query: LiteralString, **parameters: object) -> int:
        """How many rows changed."""
        async with self.connection.cursor() as cursor:
            await cursor.execute(query, parameters)
            return cursor.rowcount
