"""The keeper: a small process that stops the embedded server when its last user has left, however that user ended.

Who lives is told by locks alone (`flock`), which the kernel drops when a process dies, so no list of process ids can go
stale. All lie in `<home>/postgres/`:

    control.lock   exclusive, for moments: whoever starts or stops something
    users.lock     shared, by every process that uses the database, for as long as it does
    keeper.lock    exclusive, by the keeper; it inherits the lock from the process that starts it
    server.lock    exclusive, by the server; its processes inherit it, so it is free when the last of them is gone

This file is run as a script without site-packages (`python -I -S`), so it imports the standard library only.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

CONTROL, USERS, KEEPER, SERVER = "control.lock", "users.lock", "keeper.lock", "server.lock"

POLL_SECONDS = 0.01
STOP_STEPS = (  # fast shutdown, shutdown without a checkpoint, the kernel's way; each with its patience in seconds
    (signal.SIGINT, 20.0),
    (signal.SIGQUIT, 5.0),
    (signal.SIGKILL, 5.0),
)


def open_lock(folder: Path, name: str) -> int:
    """Open a lock file, making it where it is missing. Children that are executed do not inherit it."""
    return os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_exclusive(lock: int) -> bool:
    """Take the lock if nobody has it; never waits."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(folder: Path, name: str) -> bool:
    """Whether some process has the lock. Only reliable for a caller that has the control lock."""
    lock = open_lock(folder, name)
    try:
        return not try_exclusive(lock)
    finally:
        os.close(lock)


def read_postmaster_file(data: Path) -> list[str]:
    """Lines of `postmaster.pid`: pid, data, start time, port, socket folder, address, memory, status; empty if none."""
    try:
        return (data / "postmaster.pid").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []


def postmaster_pid(data: Path) -> int | None:
    """Process id of the live postmaster of `data`; `None` when the id in its file is gone or is another program's."""
    lines = read_postmaster_file(data)
    if not lines or not lines[0].isdigit():
        return None
    try:
        arguments = Path("/proc", lines[0], "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(lines[0]) if os.fsencode(data) in arguments else None


def stop_server(folder: Path, steps: Sequence[tuple[signal.Signals, float]] = STOP_STEPS) -> bool:
    """Stop the server, asking first and insisting later. Returns whether it is gone. Needs the control lock.

    A server that was launched a moment ago has no `postmaster.pid` yet; it is waited for as part of the patience.
    """
    for number, patience_seconds in steps:
        signalled = None
        deadline = time.monotonic() + patience_seconds
        while time.monotonic() < deadline:
            if not is_held(folder, SERVER):
                return True
            pid = postmaster_pid(folder / "data")
            if pid is not None and pid != signalled:
                os.kill(pid, number)
                signalled = pid
            time.sleep(POLL_SECONDS)
    return not is_held(folder, SERVER)


def remove_outer_socket_folder(folder: Path, lines: list[str]) -> None:
    """Remove the socket folder named in the `postmaster.pid` lines if it lies outside `folder` (a long home path)."""
    if len(lines) > 4 and not Path(lines[4]).is_relative_to(folder):
        try:
            Path(lines[4]).rmdir()
        except OSError as error:  # not empty, or not there: then it is not ours to remove
            print(f"keeper: left {lines[4]}: {error}", file=sys.stderr)  # noqa: T201 - stderr is the server's log file


def keep(folder: Path, keeper_lock: int) -> None:
    """Wait until nobody uses the database, stop the server, and return.

    Args:
        folder: `<home>/postgres`.
        keeper_lock: the inherited descriptor of `keeper.lock`, locked.
    """
    # A service manager that ends a whole group would leave the server to itself, waiting for its clients to hang up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    users, control = open_lock(folder, USERS), open_lock(folder, CONTROL)
    while True:
        fcntl.flock(users, fcntl.LOCK_EX)
        # Let go before control is taken: a newcomer holds control while it waits for its share of users.
        fcntl.flock(users, fcntl.LOCK_UN)
        fcntl.flock(control, fcntl.LOCK_EX)
        if try_exclusive(users):
            break
        fcntl.flock(control, fcntl.LOCK_UN)
    if folder.exists():
        lines = read_postmaster_file(folder / "data")
        if stop_server(folder):
            remove_outer_socket_folder(folder, lines)
    # In this order: whoever gets control next must find that there is no keeper any more, and start one.
    os.close(keeper_lock)
    os.close(control)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), int(sys.argv[2]))
