"""A look at the queue, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection

from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import Session
from vodpress.domain.job import JobRecord, JobState, Queue

_SQL = load(__package__, "inspect.sql")


async def list_jobs(
    connection: AsyncConnection[Any], *, queue: Queue | None = None, state: JobState | None = None, limit: int = 100
) -> Sequence[JobRecord]:
    """The newest jobs, of one queue or in one state where that is asked for."""
    rows = await Session(connection).all(_SQL["newest"], queue=queue, state=state, limit=limit)
    return [
        JobRecord(
            id=row["id"],
            kind=row["task_name"],
            queue=row["queue_name"],
            state=JobState(row["status"]),
            attempt=row["attempts"],
            args=row["args"],
        )
        for row in rows
    ]


async def count_jobs(connection: AsyncConnection[Any]) -> Mapping[tuple[str, JobState], int]:
    """How many jobs each queue has in each state."""
    rows = await Session(connection).all(_SQL["counts"])
    return {(row["queue_name"], JobState(row["status"])): row["jobs"] for row in rows}
