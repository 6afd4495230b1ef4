"""Brings a database to this release's schema: the queue engine's own schema first, then `migrations/NNNN-name.sql`.

Each file is one transaction together with the row that records it, so it is there whole or not at all, also after a
kill. Files are applied in the order of their names by yoyo, and never change once released.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from vodpress.domain.failure import Failure

if TYPE_CHECKING:
    from yoyo.migrations import Migration

MIGRATIONS = Path(__file__).parent / "migrations"

_APPLIED = "SELECT migration_id FROM _yoyo_migration"
_ENGINE_IS_THERE = "SELECT to_regclass('procrastinate_jobs') IS NOT NULL"
# One migrator at a time in a database. The session has the lock, so that it ends with it, however it ends.
_LOCK = "SELECT pg_advisory_lock(hashtextextended('vodpress.migrate', 0))"
# Else the server would finish the statement of a migrator that was killed before it saw that nobody is there.
_NOTICE_OUR_DEATH = "SET client_connection_check_interval = '1s'"


def migrate(conninfo: str, folder: Path = MIGRATIONS) -> list[str]:
    """Apply what is missing and return the ids (file names without `.sql`), in order. Safe to run many times at once.

    Costs one query when nothing is missing. Migrations that the database has and `folder` has not are left alone: an
    older release may run on a newer schema.

    Raises:
        Failure: `database_unavailable`; or `internal_error` with the file's name when a migration does not apply. Those
            before it stay applied, the failed one leaves nothing.
    """
    with _connection(conninfo) as connection:
        applied = _applied(connection)
        if applied is not None and not _missing(applied, folder):
            return []
        connection.execute(_NOTICE_OUR_DEATH)
        connection.execute(_LOCK)
        _apply_engine_schema(connection)
        return _apply(connection, folder)


def pending(conninfo: str, folder: Path = MIGRATIONS) -> list[str]:
    """The ids that `migrate` would apply, in order; changes nothing.

    Raises:
        Failure: `database_unavailable`.
    """
    with _connection(conninfo) as connection:
        return _missing(_applied(connection) or set(), folder)


@contextmanager
def _connection(conninfo: str) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            yield connection
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Failure("database_unavailable", detail=str(error)) from error


def _applied(connection: psycopg.Connection) -> set[str] | None:
    """Ids of the migrations that the database has; `None` when it never had any."""
    try:
        return {row[0] for row in connection.execute(_APPLIED)}
    except psycopg.errors.UndefinedTable:
        return None


def _missing(applied: set[str], folder: Path) -> list[str]:
    return [name for name in sorted(file.stem for file in folder.glob("*.sql")) if name not in applied]


def _apply_engine_schema(connection: psycopg.Connection) -> None:
    """The engine has one script for a new database. Its later changes come in files of ours, with its new version."""
    from procrastinate.schema import SchemaManager  # noqa: PLC0415 - slow to import, and needed once in a database's life

    row = connection.execute(_ENGINE_IS_THERE).fetchone()
    if row == (False,):
        with _naming("procrastinate's schema"), connection.transaction():
            connection.execute(SchemaManager.get_schema())


def _apply(connection: psycopg.Connection, folder: Path) -> list[str]:
    from yoyo import internalmigrations, read_migrations  # noqa: PLC0415 - slow to import, and needed once a release

    backend = _backend(connection)
    if internalmigrations.needs_upgrading(backend):
        with _naming("yoyo's own tables"):
            internalmigrations.upgrade(backend)
    done = []
    for migration in backend.to_apply(read_migrations(str(folder))):
        with _naming(f"{migration.id}.sql"):
            _apply_one(backend, migration)
        done.append(migration.id)
    return done


def _apply_one(backend: Any, migration: Migration) -> None:
    """Apply and record in one transaction. yoyo's own `apply_one` uses two: a kill between them cannot be mended."""
    migration.load()
    if not migration.use_transactions:
        raise Failure("internal_error", f"Migration {migration.id}.sql: every migration must be one transaction.")
    with backend.transaction():
        migration.process_steps(backend, "apply")
        backend.log_migration(migration, "apply")
        backend.mark_one(migration, log=False)


def _backend(connection: psycopg.Connection) -> Any:
    """yoyo over our connection, and so under our lock: its own lock is a row, which a killed process leaves behind."""
    from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend  # noqa: PLC0415
    from yoyo.connections import DatabaseURI  # noqa: PLC0415
    from yoyo.migrations import default_migration_table  # noqa: PLC0415

    class OnConnection(PostgresqlPsycopgBackend):  # type: ignore[misc]  # yoyo has no type hints
        schema = None

        def connect(self, _: object) -> psycopg.Connection:
            return connection

    name = connection.info.dbname
    return OnConnection(DatabaseURI("postgresql+psycopg", None, None, None, None, name, {}), default_migration_table)


@contextmanager
def _naming(subject: str) -> Iterator[None]:
    """Say which migration failed. A lost connection is left to the caller: it says nothing of the migration."""
    try:
        yield
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise Failure(
            "internal_error",
            f"The migration {subject} could not be applied; nothing of it was kept. The detail has the reason.",
            detail=str(error),
            subject=subject,
        ) from error
