"""The database that the settings name, embedded or external, brought to this release's schema; connections to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from vodpress.adapters.db.embedded import EmbeddedPostgres
from vodpress.adapters.db.migrate import migrate
from vodpress.domain.failure import Failure
from vodpress.settings import Settings

Pool = AsyncConnectionPool[AsyncConnection[Any]]

_CONNECT_SECONDS = 20.0
# A server that is gone without a word is noticed in half a minute, a statement that waits for ever in two.
_PATIENCE: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_STATEMENT_SECONDS = 120
_IDLE_SECONDS = 300.0


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[str]:
    """Conninfo of the database, brought to this release's schema; the embedded one runs while this is open.

    Raises:
        Failure: `database_unavailable`, or what a migration raises.
    """
    async with _server(settings) as conninfo:
        await asyncio.to_thread(migrate, conninfo)
        yield conninfo


@asynccontextmanager
async def _server(settings: Settings) -> AsyncIterator[str]:
    if settings.database_url is not None:
        yield settings.database_url
        return
    server = EmbeddedPostgres(settings.home)
    conninfo = await asyncio.to_thread(server.acquire)
    try:
        yield conninfo
    finally:
        server.release()


async def migrate_database(settings: Settings) -> list[str]:
    """Bring the database to this release's schema; returns the ids of the migrations applied.

    Raises:
        Failure: `database_unavailable`, or what a migration raises.
    """
    async with _server(settings) as conninfo:
        return await asyncio.to_thread(migrate, conninfo)


@asynccontextmanager
async def open_pool(conninfo: str, *, connections: int, idle_seconds: float = _IDLE_SECONDS) -> AsyncIterator[Pool]:
    """A pool of connections.

    Args:
        idle_seconds: the server ends a transaction in which nothing happens for so long: a process that was stopped in
            the middle of one would otherwise keep what it has locked from everyone.

    Raises:
        Failure: `database_unavailable`.
    """
    pool: Pool = AsyncConnectionPool(
        _patient(conninfo, idle_seconds),
        min_size=1,
        max_size=connections,
        timeout=_CONNECT_SECONDS,
        open=False,
        name="vodpress",
        check=AsyncConnectionPool.check_connection,  # those of a server that restarted meanwhile are of no use
    )
    try:
        await pool.open(wait=True, timeout=_CONNECT_SECONDS)
    except (psycopg.Error, PoolTimeout) as error:
        raise Failure("database_unavailable", detail=str(error)) from error
    try:
        yield pool
    finally:
        await pool.close()


def _patient(conninfo: str, idle_seconds: float) -> str:
    """With limits to every wait, where the connection string names none of its own."""
    chosen = conninfo_to_dict(conninfo)
    limits = (
        f"-c statement_timeout={_STATEMENT_SECONDS}s "
        f"-c idle_in_transaction_session_timeout={round(idle_seconds * 1000)}ms"
    )
    options = f"{limits} {chosen.get('options') or ''}".rstrip()  # what comes last counts
    return make_conninfo(conninfo, **{**_PATIENCE, **chosen, "options": options})
