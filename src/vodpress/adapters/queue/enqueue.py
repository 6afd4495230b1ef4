"""Adding jobs, inside the caller's transaction: a rollback leaves none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from vodpress.adapters.db.named_sql import load
from vodpress.domain.job import JobRequest

_SQL = load(__package__, "enqueue.sql")


async def enqueue(connection: AsyncConnection[Any], requests: Sequence[JobRequest]) -> int:
    """Add jobs and return how many were added; workers hear of them when the caller commits.

    A request whose unique key is waiting or running is left out, without an error. When another transaction has
    inserted the same key and not ended, this waits for it; two callers that enqueue several of the same keys should do
    so in the same order, or one of them may be chosen as victim of a deadlock.
    """
    if not requests:
        return 0
    cursor = await connection.execute(
        _SQL["enqueue"],
        {
            "queues": [str(request.queue) for request in requests],
            "kinds": [str(request.kind) for request in requests],
            "args": [Jsonb(dict(request.args)) for request in requests],
            "unique_keys": [request.unique_key for request in requests],
            "priorities": [int(request.priority) for request in requests],
        },
    )
    return cursor.rowcount
