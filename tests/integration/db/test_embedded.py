"""The embedded server with real processes: started together, killed in every order, and stopped by its keeper."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from structlog.testing import capture_logs

from vodpress.adapters.db import embedded_keeper as keeper
from vodpress.adapters.db.embedded import EmbeddedPostgres
from vodpress.adapters.db.embedded_account import Account, server_account
from vodpress.domain.failure import Failure, InvalidRequest

DEADLINE_SECONDS = 60.0
LIBRARIES = os.pathsep.join(path for path in sys.path if path.endswith(("site-packages", "src")))

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="Needs root: it is about a second OS account.")


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"in vain waited until {what}"
        time.sleep(keeper.POLL_SECONDS)


def is_served(home: Path) -> bool:
    """Whether a server process lives. Takes the control lock, as `is_held` asks."""
    control = keeper.open_lock(home / "postgres", keeper.CONTROL)
    with closing(os.fdopen(control, "rb")):
        return keeper.try_exclusive(control) and keeper.is_held(home / "postgres", keeper.SERVER)


def wait_until_stopped(home: Path) -> None:
    wait_until(lambda: not keeper_pids(home), "the keeper has ended")
    assert not is_served(home)


def keeper_pids(home: Path) -> list[int]:
    script, folder = os.fsencode(keeper.__file__), os.fsencode(home / "postgres")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if script in arguments and folder in arguments and arguments[0] != b"/bin/sh":
            found.append(int(process.name))
    return found


def server_pid(home: Path) -> int:
    pid = keeper.postmaster_pid(home / "postgres" / "data")
    assert pid is not None
    return pid


def query(conninfo: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


class User:
    """A process of its own that uses the database of a home until it is told to leave, or is killed."""

    SCRIPT = """
import subprocess, sys
from pathlib import Path
import structlog
from vodpress.adapters.db.embedded import EmbeddedPostgres
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
database = EmbeddedPostgres(Path(sys.argv[1]))
print(database.acquire(), flush=True)
exec(sys.argv[2])
sys.stdin.read()
"""

    def __init__(
        self, home: Path, then: str = "", account: Account | None = None, python: str = sys.executable
    ) -> None:
        self.process = subprocess.Popen(
            [python, "-c", self.SCRIPT, str(home), then],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": LIBRARIES},
            **(account.spawn_identity if account else {}),
        )

    def conninfo(self) -> str:
        conninfo = self.read_line()
        assert conninfo, "the process ended before it had the database"
        return conninfo

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate(timeout=DEADLINE_SECONDS)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_SECONDS)


@contextmanager
def user(home: Path, then: str = "", account: Account | None = None, python: str = sys.executable) -> Iterator[User]:
    process = User(home, then, account, python)
    try:
        yield process
    finally:
        process.kill()


def test_a_cold_start_gives_a_server_with_our_settings(home: Path) -> None:
    wanted = {
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "listen_addresses": "",
        "fsync": "on",
        "jit": "off",
        "autovacuum": "on",
        "shared_buffers": "64MB",
        "max_connections": "100",
    }
    with EmbeddedPostgres(home) as conninfo:
        settings = {str(name): query(conninfo, f"SHOW {name}")[0][0] for name in wanted}
        database = query(
            conninfo, "SELECT current_database(), datlocprovider FROM pg_database WHERE datname = 'vodpress'"
        )
    assert settings == wanted
    assert database == [("vodpress", "b")]


def test_a_restart_keeps_what_was_committed(home: Path) -> None:
    with EmbeddedPostgres(home) as conninfo:
        query(conninfo, "CREATE TABLE kept AS SELECT 42 AS answer")
    wait_until_stopped(home)
    with EmbeddedPostgres(home) as conninfo:
        assert query(conninfo, "SELECT answer FROM kept") == [(42,)]


def test_acquire_and_release_may_be_repeated(home: Path) -> None:
    database = EmbeddedPostgres(home)
    database.release()
    first = database.acquire()
    assert database.acquire() == first
    database.release()
    database.release()
    wait_until_stopped(home)


def test_a_release_and_an_acquire_at_once_end_with_a_server(home: Path) -> None:
    database = EmbeddedPostgres(home)
    for _ in range(20):  # the keeper is at another point of its work each time
        assert query(database.acquire(), "SELECT 1") == [(1,)]
        database.release()


def test_two_processes_at_once_on_a_new_home_share_one_server(home: Path) -> None:
    with user(home) as one, user(home) as two:
        started = [query(each.conninfo(), "SELECT pg_postmaster_start_time()") for each in (one, two)]
        assert started[0] == started[1]
        assert len(keeper_pids(home)) == 1
        one.leave()
        two.leave()
    wait_until_stopped(home)


def test_the_server_stops_when_the_last_user_leaves_and_not_before(home: Path) -> None:
    with user(home) as one, user(home) as two:
        conninfo = one.conninfo()
        two.conninfo()
        one.leave()
        assert query(conninfo, "SELECT 1") == [(1,)]
        assert is_served(home)
        two.leave()
    wait_until_stopped(home)


def test_a_killed_user_does_not_disturb_another_and_does_not_keep_the_server(home: Path) -> None:
    with user(home) as survivor, user(home) as victim:
        conninfo = survivor.conninfo()
        victim.conninfo()
        with psycopg.connect(conninfo) as connection:
            connection.execute("CREATE TABLE work AS SELECT 1 AS done")
            victim.kill()
            connection.execute("UPDATE work SET done = 2")
            connection.commit()
        assert query(conninfo, "SELECT done FROM work") == [(2,)]
        survivor.leave()
    wait_until_stopped(home)


def test_the_server_stops_when_its_only_user_is_killed(home: Path) -> None:
    with user(home) as only:
        only.conninfo()
        only.kill()
    wait_until_stopped(home)


def test_a_user_killed_while_the_cluster_is_made_leaves_nothing_half_done(home: Path) -> None:
    with user(home) as victim:
        wait_until(lambda: list((home / "postgres").glob("new-*")), "the cluster is being made")
        victim.kill()
    wait_until(lambda: not keeper_pids(home), "the keeper has ended")
    with EmbeddedPostgres(home) as conninfo:
        assert query(conninfo, "SELECT current_database()") == [("vodpress",)]
    wait_until_stopped(home)
    assert not list((home / "postgres").glob("new-*"))


@pytest.mark.parametrize(
    "leave_a_child",
    [
        "child = subprocess.Popen(['sleep', '600'], stdin=subprocess.DEVNULL)\nprint(child.pid, flush=True)",
        "import os, signal\npid = os.fork()\npid or signal.pause()\nprint(pid, flush=True)",
    ],
    ids=["executed", "forked"],
)
def test_an_orphaned_child_does_not_keep_the_server(home: Path, leave_a_child: str) -> None:
    with user(home, leave_a_child) as parent:
        parent.conninfo()
        child = int(parent.read_line())
        try:
            parent.process.kill()
            parent.process.wait(DEADLINE_SECONDS)
            wait_until_stopped(home)
            os.kill(child, 0)  # it lives
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_killed_keeper_is_replaced_at_the_next_acquire(home: Path) -> None:
    with EmbeddedPostgres(home) as conninfo:
        (first,) = keeper_pids(home)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not keeper_pids(home), "the keeper is gone")
        with EmbeddedPostgres(home) as again:
            assert again == conninfo
            wait_until(lambda: keeper_pids(home), "there is a new keeper")
    wait_until_stopped(home)


def test_the_keeper_outlives_a_service_manager_that_ends_the_group(home: Path) -> None:
    with EmbeddedPostgres(home):
        (pid,) = keeper_pids(home)
        wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "S", "the keeper waits")
        os.kill(pid, signal.SIGTERM)
    wait_until_stopped(home)


def test_a_killed_postmaster_comes_back_with_what_was_committed(home: Path) -> None:
    with EmbeddedPostgres(home) as conninfo:
        query(conninfo, "CREATE TABLE kept AS SELECT 42 AS answer")
        os.kill(server_pid(home), signal.SIGKILL)
        # Its backends may live on for a moment; that is for acquire to wait for.
        wait_until(lambda: keeper.postmaster_pid(home / "postgres" / "data") is None, "the postmaster is dead")
        with EmbeddedPostgres(home) as again:
            assert query(again, "SELECT answer FROM kept") == [(42,)]
    wait_until_stopped(home)


def test_after_everything_was_killed_a_reused_process_id_is_not_taken_for_the_server(home: Path) -> None:
    with user(home) as victim:
        conninfo = victim.conninfo()
        query(conninfo, "CREATE TABLE kept AS SELECT 42 AS answer")
        postmaster, (its_keeper,) = server_pid(home), keeper_pids(home)
        os.kill(its_keeper, signal.SIGKILL)
        os.kill(postmaster, signal.SIGKILL)
        victim.kill()
    wait_until(lambda: not is_served(home), "every server process is gone")
    # PostgreSQL itself refuses to start while the process in these files lives and belongs to its own account.
    stranger = subprocess.Popen(["sleep", "600"], **server_account().spawn_identity)
    try:
        sockets = Path(str(conninfo_to_dict(conninfo)["host"]))
        for file in (home / "postgres" / "data" / "postmaster.pid", sockets / ".s.PGSQL.5432.lock"):
            lines = file.read_text().splitlines()
            assert lines[0] == str(postmaster)
            file.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
        with EmbeddedPostgres(home) as again:
            assert query(again, "SELECT answer FROM kept") == [(42,)]
        wait_until_stopped(home)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_does_not_heed_the_request_to_stop_is_killed(home: Path) -> None:
    database = EmbeddedPostgres(home)
    database.acquire()
    os.kill(server_pid(home), signal.SIGSTOP)
    quick = [(signal.SIGINT, 0.1), (signal.SIGQUIT, 0.1), (signal.SIGKILL, DEADLINE_SECONDS)]
    assert keeper.stop_server(home / "postgres", quick)
    database.release()
    wait_until_stopped(home)


def test_a_server_that_cannot_start_says_why_and_leaves_no_process(home: Path) -> None:
    with pytest.raises(Failure) as caught:
        EmbeddedPostgres(home, {"shared_buffers": "plenty"}).acquire()
    assert caught.value.code == "database_unavailable"
    assert "shared_buffers" in caught.value.detail
    wait_until_stopped(home)
    with EmbeddedPostgres(home) as conninfo:
        assert query(conninfo, "SELECT 1") == [(1,)]


def test_data_of_another_version_is_refused(home: Path) -> None:
    with EmbeddedPostgres(home):
        pass
    wait_until_stopped(home)
    (home / "postgres" / "data" / "PG_VERSION").write_text("16\n")
    with pytest.raises(InvalidRequest, match="written by PostgreSQL 16") as caught:
        EmbeddedPostgres(home).acquire()
    assert caught.value.code == "database_version"
    assert not keeper_pids(home)


def test_a_home_that_is_a_file_is_refused(home: Path) -> None:
    (home / "file").touch()
    with pytest.raises(InvalidRequest, match="VODPRESS_HOME") as caught:
        EmbeddedPostgres(home / "file").acquire()
    assert caught.value.code == "home_unusable"


@pytest.mark.parametrize("name", ["with a space", """quo"te's""", "$HOME `id` %s \\", "comma,comma", "ümlaut"])
def test_a_home_may_have_any_name(home: Path, name: str) -> None:
    with EmbeddedPostgres(home / name) as conninfo:
        assert query(conninfo, "SELECT 1") == [(1,)]
    wait_until_stopped(home / name)


def test_a_long_path_has_its_socket_in_a_private_folder_that_goes_with_the_server(home: Path) -> None:
    deep = home / ("d" * 60) / ("e" * 60)
    with EmbeddedPostgres(deep) as conninfo:
        assert query(conninfo, "SELECT 1") == [(1,)]
        sockets = Path(str(conninfo_to_dict(conninfo)["host"]))
        assert not sockets.is_relative_to(deep)
        facts = sockets.lstat()
        assert stat.S_IMODE(facts.st_mode) == 0o700
        assert facts.st_uid == server_account().uid
    wait_until_stopped(deep)
    assert not sockets.exists()


def test_a_socket_folder_that_others_can_enter_is_refused(home: Path) -> None:
    deep = home / ("d" * 120)
    with EmbeddedPostgres(deep) as conninfo:
        sockets = Path(str(conninfo_to_dict(conninfo)["host"]))
    wait_until_stopped(deep)
    sockets.mkdir(mode=0o700)
    try:
        sockets.chmod(0o777)
        with pytest.raises(InvalidRequest) as caught:
            EmbeddedPostgres(deep).acquire()
        assert caught.value.code == "socket_folder_unsafe"
    finally:
        sockets.rmdir()
    wait_until_stopped(deep)


@as_root
def test_root_opens_the_way_to_the_data_no_more_than_needed_and_says_so(home: Path) -> None:
    private = home / "private"
    private.mkdir(mode=0o700)
    with capture_logs() as logs, EmbeddedPostgres(private / "vodpress"):
        pass
    assert stat.S_IMODE(private.stat().st_mode) == 0o701
    (warning,) = [entry for entry in logs if entry["event"] == "folders_made_searchable"]
    assert warning["log_level"] == "warning"
    assert str(private) in warning["folders"]
    wait_until_stopped(private / "vodpress")


@as_root
def test_another_account_cannot_connect(home: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    with EmbeddedPostgres(home) as conninfo:
        connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1] + '/.s.PGSQL.5432')"
        done = subprocess.run(
            ["/usr/bin/env", "python3", "-c", connect, str(conninfo_to_dict(conninfo)["host"])],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            **Account(nobody.pw_uid, nobody.pw_gid, nobody.pw_name).spawn_identity,
        )
    assert "PermissionError" in done.stderr


def can_use(python: str, account: Account) -> bool:
    """Whether `account` can run that interpreter with our libraries."""
    try:
        done = subprocess.run(
            [python, "-c", "import psycopg, structlog, vodpress"],
            check=False,
            capture_output=True,
            cwd="/",
            env={"PYTHONPATH": LIBRARIES},
            **account.spawn_identity,
        )
    except PermissionError:
        return False
    return done.returncode == 0


@as_root
def test_an_ordinary_account_runs_the_server_itself(home: Path) -> None:
    entry = pwd.getpwnam("nobody")
    nobody = Account(entry.pw_uid, entry.pw_gid, entry.pw_name)
    pythons = [python for python in (sys.executable, "/usr/bin/python3") if can_use(python, nobody)]
    if not pythons:
        pytest.skip("This installation lies where another account cannot read it.")
    home.chmod(0o711)
    theirs = home / "theirs"
    theirs.mkdir(mode=0o700)
    nobody.own(theirs)
    with user(theirs, account=nobody, python=pythons[0]) as process:
        assert query(process.conninfo(), "SELECT 1") == [(1,)]
        assert (theirs / "postgres" / "data").stat().st_uid == nobody.uid
        assert Path(f"/proc/{server_pid(theirs)}").stat().st_uid == nobody.uid
        with pytest.raises(InvalidRequest) as caught:
            EmbeddedPostgres(theirs).acquire()
        process.leave()
    wait_until_stopped(theirs)
    assert caught.value.code == "database_owner"
