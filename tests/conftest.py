"""Fixtures for every test: a PostgreSQL server a worker process, a fresh migrated database a test, and homes.

`VODPRESS_TEST_REQUIRE` names, separated by commas, what must be there: a test that needs it then fails instead of being
skipped. `all` names everything.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool

from vodpress.adapters.db import embedded_keeper
from vodpress.adapters.db.embedded import EmbeddedPostgres
from vodpress.adapters.db.migrate import migrate

PREFIX = "vodpress-test-"
STOP_SECONDS = 30.0
SWEEP_SECONDS = 60.0
# Losing a test's database in a power cut is fine, and not waiting for the disk is five times quicker.
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

Require = Callable[..., Any]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def require() -> Require:
    """`require(name, how_to_get_it, found=…)`: skip, or fail when `VODPRESS_TEST_REQUIRE` says so, unless it is found.

    `found` is what a look-up gave, by default the path of the program called `name`; it is returned.
    """
    wanted = {name.strip() for name in os.environ.get("VODPRESS_TEST_REQUIRE", "").split(",")}

    def check(name: str, how_to_get_it: str, *, found: object = ...) -> object:
        thing = shutil.which(name) if found is ... else found
        if thing:
            return thing
        sentence = f"{name} is not there. {how_to_get_it}"
        if name in wanted or "all" in wanted:
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)

    return check


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder for `VODPRESS_HOME` with a short path. At the end, everyone must have left its database."""
    with temporary_home() as folder:
        yield folder


@pytest.fixture(scope="session")
def database_server() -> Iterator[str]:
    """Conninfo of this worker process's server, database `postgres`. Stopped by its keeper even if we are killed."""
    _sweep()
    with temporary_home() as folder, EmbeddedPostgres(folder, QUICK) as conninfo:
        yield make_conninfo(conninfo, dbname="postgres")


@pytest.fixture(scope="session")
def _migrated_template(database_server: str) -> str:
    name = "migrated"
    with psycopg.connect(database_server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    migrate(make_conninfo(database_server, dbname=name))
    return name


@pytest.fixture
def empty_database(database_server: str) -> Iterator[str]:
    """Conninfo of a fresh database with nothing in it, dropped after the test."""
    with _database(database_server, template="template1") as conninfo:
        yield conninfo


@pytest.fixture
def database(database_server: str, _migrated_template: str) -> Iterator[str]:
    """Conninfo of a fresh, migrated database, dropped after the test."""
    with _database(database_server, template=_migrated_template) as conninfo:
        yield conninfo


@pytest.fixture
async def pool(database: str) -> AsyncIterator[AsyncConnectionPool]:
    """An open pool of connections to `database`, closed after the test."""
    async with AsyncConnectionPool(database, min_size=1, max_size=10, open=False) as pool:
        yield pool


@contextmanager
def _database(server: str, *, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(create)
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def temporary_home() -> Iterator[Path]:
    """A folder for `VODPRESS_HOME` with a short path, for any scope; removed when its database has stopped."""
    # Not under pytest's own folders: when root runs the tests, the database's account must be able to pass the parents,
    # and every pytest session that starts makes those private again.
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    ours = os.open(folder, os.O_RDONLY)
    fcntl.flock(ours, fcntl.LOCK_EX)  # tells `_sweep` that we live
    try:
        yield folder
        _await_stop(folder)
        _remove(folder)
    finally:
        os.close(ours)


def _remove(folder: Path) -> None:
    """Remove a home. Programs of a server that was refused while it was made may write a moment longer."""
    deadline = time.monotonic() + STOP_SECONDS
    while folder.exists():
        last = time.monotonic() > deadline
        shutil.rmtree(folder, ignore_errors=not last)


def _await_stop(home: Path) -> None:
    if not (home / "postgres").exists():
        return
    deadline = time.monotonic() + STOP_SECONDS
    while embedded_keeper.is_held(home / "postgres", embedded_keeper.KEEPER):
        assert time.monotonic() < deadline, f"some process still uses the database in {home}"
        time.sleep(embedded_keeper.POLL_SECONDS)


def _sweep() -> None:
    """Remove the homes of test processes that were killed; their keepers have stopped their servers."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue  # removed by another process in this moment, or not ours
        try:
            facts = os.fstat(lock)
            old = time.time() - facts.st_mtime > SWEEP_SECONDS and facts.st_uid == os.geteuid()
            if old and embedded_keeper.try_exclusive(lock):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
