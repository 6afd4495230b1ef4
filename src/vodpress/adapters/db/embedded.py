"""A PostgreSQL server that belongs to one `VODPRESS_HOME`: started by its first user, stopped after its last.

`embedded_keeper` tells how the processes find out about each other. A user never waits for the server to stop.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from psycopg.conninfo import make_conninfo

from vodpress.adapters.db import embedded_keeper as keeper
from vodpress.adapters.db.embedded_account import Account, SpawnIdentity, server_account
from vodpress.adapters.db.embedded_cluster import (
    DATABASE,
    ROLE,
    SETTINGS,
    check_cluster,
    ensure_cluster,
    find_programs,
    server_environment,
)
from vodpress.adapters.db.embedded_socket import SOCKET, ensure_socket_folder
from vodpress.domain.failure import Failure, InvalidRequest

CONTROL_SECONDS = 120.0  # others may be making a cluster, recovering one, or stopping one
START_SECONDS = 60.0
LOG_BYTES = 1_000_000  # a longer log is set aside at the next start; one older log is kept

# The shell is only there to leave the child without a parent: nobody has to reap it, nobody's process tree has it.
_DETACH = '"$@" &'


class EmbeddedPostgres:
    """One process's use of the server of a home. Also a context manager that gives the conninfo.

    Args:
        home: `VODPRESS_HOME`; made if missing.
        settings: PostgreSQL settings over the defaults; they count when this process is the one that starts the server.
    """

    def __init__(self, home: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = home.resolve() / "postgres"
        self._settings = {**SETTINGS, **(settings or {})}
        self._users_lock: int | None = None
        _instances.add(self)

    def acquire(self) -> str:
        """Join the users, start the server if it is not running, and return the conninfo.

        Blocks until the server answers; safe from many processes at once. May be called again, for instance after a
        crash of the server, and then brings it back.

        Raises:
            InvalidRequest: this home cannot have a server here (another version, another owner, another system).
            Failure: `database_unavailable`, with the end of the server's log as detail; `disk_full`; `tool_missing`.
        """
        if not Path("/proc/self/cmdline").exists():
            raise InvalidRequest("no_embedded_database", "The embedded database needs Linux. Use a server of your own.")
        account = server_account()
        with _explaining(self.folder):
            self._make_folder(account)
            with self._control():
                check_cluster(self.folder / "data", account)
                joined_before = self._users_lock is not None
                self._join()
                try:
                    self._ensure_keeper()
                    return self._conninfo(account, self._ensure_server(account))
                except BaseException:
                    if not joined_before:
                        self.release()
                    raise

    def release(self) -> None:
        """Leave. The last one to leave makes the keeper stop the server. Idempotent; never waits."""
        lock, self._users_lock = self._users_lock, None
        if lock is not None:
            os.close(lock)

    def __enter__(self) -> str:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _make_folder(self, account: Account) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o700 if account.uid == os.geteuid() else 0o711
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(mode=mode)

    @contextlib.contextmanager
    def _control(self) -> Iterator[None]:
        lock = keeper.open_lock(self.folder, keeper.CONTROL)
        try:
            deadline = time.monotonic() + CONTROL_SECONDS
            while not keeper.try_exclusive(lock):
                if time.monotonic() > deadline:
                    raise Failure(
                        "database_unavailable",
                        "Another vodpress process is still starting or stopping the database; "
                        f"waited {CONTROL_SECONDS:.0f} s for it.",
                        subject=str(self.folder),
                    )
                time.sleep(keeper.POLL_SECONDS)
            yield
        finally:
            # Unlocked by name, not by closing: a child forked by another thread in this moment has the descriptor too.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def _join(self) -> None:
        if self._users_lock is None:
            self._users_lock = keeper.open_lock(self.folder, keeper.USERS)
            fcntl.flock(self._users_lock, fcntl.LOCK_SH)

    def _ensure_keeper(self) -> None:
        """Before the server: should we die while it starts, the keeper is there to stop it."""
        lock = keeper.open_lock(self.folder, keeper.KEEPER)
        try:
            if keeper.try_exclusive(lock):
                script = [sys.executable, "-I", "-S", keeper.__file__, str(self.folder), str(lock)]
                self._launch(script, lock, Path("/"), dict(os.environ), {})
        finally:
            os.close(lock)

    def _ensure_server(self, account: Account) -> Path:
        """Start the server unless it runs, wait until it answers, and return the folder of its socket."""
        launched_at: int | None = None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            lock = keeper.open_lock(self.folder, keeper.SERVER)
            try:
                if keeper.try_exclusive(lock):
                    if launched_at is not None:
                        raise self._not_started("The database server ended while it started.", launched_at)
                    launched_at = self._launch_server(lock, account)
            finally:
                os.close(lock)
            if sockets := self._answering():
                return sockets
            time.sleep(keeper.POLL_SECONDS / 2)
        raise self._not_started(f"The database server did not answer within {START_SECONDS:.0f} s.", launched_at or 0)

    def _launch_server(self, lock: int, account: Account) -> int:
        """Start the server with the lock that shows it lives. Returns where its part of the log begins, in bytes."""
        programs = find_programs()
        data = ensure_cluster(self.folder, account, programs)
        sockets = ensure_socket_folder(self.folder, account)
        # Nobody holds the server's lock, so nobody serves this data, whatever program has the process id by now.
        for stale in (data / "postmaster.pid", sockets / SOCKET, sockets / f"{SOCKET}.lock"):
            stale.unlink(missing_ok=True)
        if self._log_bytes() > LOG_BYTES:
            self._log.replace(self.folder / "log.1")
        begins = self._log_bytes()
        command = [str(programs / "postgres"), "-D", str(data)]
        quoted_sockets = '"' + str(sockets).replace('"', '""') + '"'  # an entry of a list
        for name, value in {**self._settings, "unix_socket_directories": quoted_sockets}.items():
            command += ["-c", f"{name}={value}"]
        self._launch(command, lock, data, server_environment(), account.spawn_identity)
        return begins

    def _launch(
        self, command: Sequence[str], lock: int, cwd: Path, environment: Mapping[str, str], identity: SpawnIdentity
    ) -> None:
        """Start a program in a session of its own that outlives us, with `lock` as its only descriptor but the log."""
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            subprocess.run(
                ["/bin/sh", "-c", _DETACH, "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
                cwd=cwd,
                env=environment,
                check=True,
                **identity,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise Failure(
                "database_unavailable", f"A process for the database could not be started: {error}", subject=command[0]
            ) from error
        finally:
            os.close(log)

    def _answering(self) -> Path | None:
        """The socket's folder if the server takes connections: its file says ready, and somebody is at the socket."""
        lines = keeper.read_postmaster_file(self.folder / "data")
        if len(lines) < 8 or lines[7].strip() != "ready":
            return None
        # As the running server says, for its starter may have had another folder for temporary files than we have.
        sockets = Path(lines[4])
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(os.fsencode(sockets / SOCKET))
            except (ConnectionRefusedError, FileNotFoundError):
                return None
        return sockets

    def _conninfo(self, account: Account, sockets: Path) -> str:
        parts = {"host": str(sockets), "port": SETTINGS["port"], "user": ROLE, "dbname": DATABASE}
        if account.name is not None:
            parts["requirepeer"] = account.name  # refuses a server that somebody else put in the socket's place
        return make_conninfo("", **parts)

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _log_bytes(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _not_started(self, message: str, log_begins: int) -> Failure:
        with self._log.open("rb") as log:
            log.seek(max(log_begins, self._log_bytes() - 4000))
            detail = log.read().decode(errors="replace")
        return Failure("database_unavailable", message, detail=detail, subject=str(self.folder))


@contextlib.contextmanager
def _explaining(folder: Path) -> Iterator[None]:
    """Turn what the operating system says of `folder` into a sentence for the person who chose it."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise Failure("disk_full", subject=str(folder), detail=str(error)) from error
        raise InvalidRequest(
            "home_unusable", f"The database cannot live in {folder}: {error}. Set VODPRESS_HOME to another folder."
        ) from error


_instances: weakref.WeakSet[EmbeddedPostgres] = weakref.WeakSet()


def _leave_in_forked_child() -> None:
    """A forked child is no user until it acquires by itself; it must not keep the server up after its parent."""
    for instance in _instances:
        instance.release()


os.register_at_fork(after_in_child=_leave_in_forked_child)
