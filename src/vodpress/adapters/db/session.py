"""One transaction's connection, with the three ways it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row


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
