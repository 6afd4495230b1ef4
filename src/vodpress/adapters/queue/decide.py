"""What is decided about jobs from outside, without a claim: cancel, hasten, revive."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, errors

from vodpress.adapters.db.named_sql import load

_SQL = load(__package__, "decide.sql")


async def cancel_of_asset(connection: AsyncConnection[Any], asset_id: str, *, plan_id: int | None = None) -> int:
    """Cancel every waiting or running job of an asset, or of one plan of it; return how many.

    Running ones lose their claim, and their handlers are cancelled once the transaction is committed.
    """
    which = {"asset_id": asset_id, "plan_id": plan_id}
    cancelled = 0
    while True:
        cancelled += (await connection.execute(_SQL["cancel_of_asset"], which)).rowcount
        # It may have waited for a job that was being settled, in a transaction that enqueued the next one.
        if await (await connection.execute(_SQL["is_live"], which)).fetchone() is None:
            return cancelled


async def hasten_of_asset(connection: AsyncConnection[Any], asset_id: str) -> int:
    """Let every job of an asset that waits for its time go on at once; return how many. Attempts stay as they are."""
    cursor = await connection.execute(_SQL["hasten_of_asset"], {"asset_id": asset_id})
    return cursor.rowcount


async def revive(connection: AsyncConnection[Any], job_id: int) -> bool:
    """Give a failed job all its attempts again, at once. Works inside a transaction as well as outside.

    False, and no change, when it is not failed or a job with its unique key waits or runs already.
    """
    try:
        async with connection.transaction():
            cursor = await connection.execute(_SQL["revive"], {"job_id": job_id})
            return cursor.rowcount == 1
    except errors.UniqueViolation:
        return False  # another transaction enqueued the same key in this moment
