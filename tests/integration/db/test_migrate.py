"""Migrations on a real database: whole or not at all, by many at once, and after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from vodpress.adapters.db.migrate import MIGRATIONS, migrate, pending
from vodpress.domain.failure import Failure

DEADLINE_SECONDS = 60.0

FUNCTION = """
-- Every kind of text that a splitter of statements could trip over; a semicolon; in a comment too.
CREATE TABLE numbered (id integer, note text DEFAULT 'a;b', CHECK (CASE WHEN id = 0 THEN false ELSE true END));
CREATE FUNCTION count_up() RETURNS trigger LANGUAGE plpgsql AS $body$
DECLARE row record;
BEGIN
    IF NEW.id IS NULL THEN
        NEW.id := CASE WHEN NEW.note LIKE '100%' THEN 100 ELSE 1 END;
    END IF;
    FOR row IN SELECT 1 LOOP NULL; END LOOP;
    EXECUTE $inner$ SELECT 'x;y' $inner$;
    RETURN NEW;
END;
$body$;
CREATE TRIGGER count_up BEFORE INSERT ON numbered FOR EACH ROW EXECUTE FUNCTION count_up();
CREATE FUNCTION double(value integer) RETURNS integer LANGUAGE sql BEGIN ATOMIC; SELECT 1; SELECT 2 * value; END;
DO $$ BEGIN PERFORM 1; END $$; /* c ; d */
INSERT INTO numbered (note) VALUES ('100%');
""".replace("ATOMIC;", "ATOMIC")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, "0001-first", "CREATE TABLE first (id integer);")
    write(tmp_path, "0002-second", "CREATE TABLE second (id integer);")
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.sql").write_text(text, encoding="utf-8")


def rows(conninfo: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def has_table(conninfo: str, name: str) -> bool:
    return rows(conninfo, f"SELECT to_regclass('{name}') IS NOT NULL") == [(True,)]


def test_ours_apply_after_the_engines_schema_and_only_once(empty_database: str) -> None:
    ours = sorted(file.stem for file in MIGRATIONS.glob("*.sql"))
    assert pending(empty_database) == ours
    assert not has_table(empty_database, "procrastinate_jobs")
    assert migrate(empty_database) == ours
    assert has_table(empty_database, "procrastinate_jobs")
    assert pending(empty_database) == []
    assert migrate(empty_database) == []


def test_new_files_are_applied_in_the_order_of_their_names(empty_database: str, folder: Path) -> None:
    assert migrate(empty_database, folder) == ["0001-first", "0002-second"]
    write(folder, "0010-tenth", "ALTER TABLE third ADD COLUMN tenth integer;")
    write(folder, "0003-third", "CREATE TABLE third (id integer);")
    assert pending(empty_database, folder) == ["0003-third", "0010-tenth"]
    assert migrate(empty_database, folder) == ["0003-third", "0010-tenth"]


def test_a_newer_schema_is_left_alone(empty_database: str, folder: Path) -> None:
    migrate(empty_database, folder)
    (folder / "0002-second.sql").unlink()
    assert migrate(empty_database, folder) == []
    assert has_table(empty_database, "second")


def test_functions_and_their_bodies_are_not_torn_apart(empty_database: str, folder: Path) -> None:
    write(folder, "0003-function", FUNCTION)
    migrate(empty_database, folder)
    assert rows(empty_database, "SELECT id, double(id) FROM numbered") == [(100, 200)]


def test_a_failed_migration_is_named_and_leaves_nothing(empty_database: str, folder: Path) -> None:
    write(folder, "0003-wrong", "CREATE TABLE third (id integer);\nINSERT INTO third VALUES ('no number');")
    write(folder, "0004-fourth", "CREATE TABLE fourth (id integer);")
    with pytest.raises(Failure, match=r"0003-wrong\.sql") as caught:
        migrate(empty_database, folder)
    assert caught.value.code == "internal_error"
    assert "no number" in caught.value.detail
    assert has_table(empty_database, "second")
    assert not has_table(empty_database, "third")
    assert not has_table(empty_database, "fourth")
    assert pending(empty_database, folder) == ["0003-wrong", "0004-fourth"]
    write(folder, "0003-wrong", "CREATE TABLE third (id integer);")
    assert migrate(empty_database, folder) == ["0003-wrong", "0004-fourth"]


def test_a_migration_outside_a_transaction_is_refused(empty_database: str, folder: Path) -> None:
    write(folder, "0003-loose", "-- transactional: false\nCREATE TABLE third (id integer);")
    with pytest.raises(Failure, match="one transaction"):
        migrate(empty_database, folder)
    assert not has_table(empty_database, "third")


def test_many_at_once_apply_each_file_once(empty_database: str, folder: Path) -> None:
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(migrate(empty_database, folder))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    assert sorted(results) == [[], [], [], [], [], ["0001-first", "0002-second"]]


def test_a_migrator_that_was_killed_holds_up_nobody(empty_database: str, folder: Path) -> None:
    write(folder, "0002-second", "CREATE TABLE second (id integer);\nDO $$ BEGIN PERFORM pg_sleep(600); END $$;")
    script = "import sys; from pathlib import Path; from vodpress.adapters.db.migrate import migrate; "
    script += "migrate(sys.argv[1], Path(sys.argv[2]))"
    process = subprocess.Popen([sys.executable, "-c", script, empty_database, str(folder)])
    sleeping = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not rows(empty_database, sleeping):
        assert time.monotonic() < deadline
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait(DEADLINE_SECONDS)
    assert has_table(empty_database, "first")
    assert not has_table(empty_database, "second")
    write(folder, "0002-second", "CREATE TABLE second (id integer);")
    assert migrate(empty_database, folder) == ["0002-second"]


def test_an_up_to_date_database_does_not_pay_for_the_tool(database: str) -> None:
    script = "import sys; from vodpress.adapters.db.migrate import migrate; migrate(sys.argv[1]); "
    script += "print(sorted({'yoyo', 'procrastinate', 'sqlparse'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script, database], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_a_database_that_is_not_there_is_an_infrastructure_failure(tmp_path: Path) -> None:
    for act in (migrate, pending):
        with pytest.raises(Failure) as caught:
            act(f"host={tmp_path} dbname=nothing connect_timeout=5")
        assert caught.value.code == "database_unavailable"
