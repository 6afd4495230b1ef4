"""The OS account the embedded server runs as. PostgreSQL refuses root, so root lends it an account of its own."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import structlog

from vodpress.domain.failure import Failure

SERVER_ACCOUNT = "pgserver"

_log = structlog.get_logger(__name__)


class SpawnIdentity(TypedDict, total=False):
    """The arguments of `subprocess` that give a child another identity; empty for 'the same as ours'."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns the data and runs the server. `name` is `None` for a user id without an entry in the user database."""

    uid: int
    gid: int
    name: str | None

    @property
    def spawn_identity(self) -> SpawnIdentity:
        """How to start a child as this account."""
        if self.uid == os.geteuid():
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Hand a path that we made to this account."""
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def server_account() -> Account:
    """The account to run the server as: ours, or `pgserver` when we are root.

    Raises:
        Failure: `tool_missing`, when we are root and there is no such account and none can be made.
    """
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), _name_of(os.geteuid()))
    entry = _find(SERVER_ACCOUNT)
    if entry is None:
        problem = _add(SERVER_ACCOUNT)
        entry = _find(SERVER_ACCOUNT)  # also there when another process was quicker
        if entry is None:
            raise Failure(
                "tool_missing",
                f"PostgreSQL refuses to run as root, and the account {SERVER_ACCOUNT} for it could not be made. "
                f"Run vodpress as an ordinary user, or make the account: useradd --system {SERVER_ACCOUNT}",
                detail=problem,
            )
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name)


def let_through(account: Account, paths: Iterable[Path]) -> None:
    """Make every folder above `paths` one that `account` can pass. Adds 'search for others', never 'read for others'.

    Does nothing unless the account is another than ours. What was changed is logged as a warning.
    """
    if account.uid == os.geteuid():
        return
    widened = []
    for folder in sorted({parent for path in paths for parent in path.parents}):
        facts = folder.stat()
        if facts.st_uid != account.uid and not facts.st_mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(facts.st_mode) | stat.S_IXOTH)
            widened.append(str(folder))
    if widened:
        _log.warning("folders_made_searchable", account=account.name, folders=widened)


def _find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _name_of(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _add(name: str) -> str:
    """Make a system account without home or shell. Returns what went wrong, for the operator."""
    try:
        made = subprocess.run(
            ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", name],  # noqa: S607 - in /usr/sbin or /sbin
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return made.stderr.strip()
