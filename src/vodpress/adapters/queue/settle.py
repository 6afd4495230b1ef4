"""Settling a job: the only ways in which the holder of a claim gives it up, each inside the caller's transaction.

Each raises `LeaseLost`, and changes nothing, when the claim is not the live one: the job was rescued, cancelled or
settled before. The caller's transaction should then be rolled back with it.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from vodpress.adapters.db.named_sql import load
from vodpress.domain.failure import LeaseLost
from vodpress.domain.job import Claim

_SQL = load(__package__, "settle.sql")

Connection = AsyncConnection[Any]


async def verify(connection: Connection, claim: Claim) -> None:
    """Keep the claim live until the transaction ends: rescue and cancellation wait for it or pass the job by."""
    await _settle(connection, "verify", claim)


async def complete(connection: Connection, claim: Claim) -> None:
    """The work is done and recorded in this transaction."""
    await _settle(connection, "complete", claim)


async def snooze(connection: Connection, claim: Claim, seconds: float) -> None:
    """Not yet: wait `seconds`. The attempt is given back."""
    await _settle(connection, "snooze", claim, seconds=seconds)


async def retry(connection: Connection, claim: Claim, delay_seconds: float) -> None:
    """This attempt failed: wait `delay_seconds` for the next one."""
    await _settle(connection, "retry", claim, seconds=delay_seconds)


async def hand_back(connection: Connection, claim: Claim) -> None:
    """The worker stops: let another take the job at once. The attempt is given back."""
    await _settle(connection, "hand_back", claim)


async def bury(connection: Connection, claim: Claim) -> None:
    """No further attempt until a person decides; the caller writes the dead letter in this transaction."""
    await _settle(connection, "bury", claim)


async def discard(connection: Connection, claim: Claim) -> None:
    """The work is moot."""
    await _settle(connection, "discard", claim)


async def _settle(connection: Connection, name: str, claim: Claim, **parameters: float) -> None:
    cursor = await connection.execute(_SQL[name], {"job_id": claim.job_id, "claim_id": claim.claim_id, **parameters})
    if cursor.rowcount != 1:
        raise LeaseLost(f"{name}: claim {claim.claim_id} on job {claim.job_id} is no longer the live one")
