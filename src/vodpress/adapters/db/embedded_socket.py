"""Where the embedded server's Unix socket lies: beside the data, or in a private folder when that path is too long."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from vodpress.adapters.db.embedded_account import Account, let_through
from vodpress.domain.failure import InvalidRequest

SOCKET = ".s.PGSQL.5432"

# The kernel takes 107 bytes on Linux; a margin is left for other systems' clients.
_PATH_BYTES = 100


def ensure_socket_folder(folder: Path, account: Account) -> Path:
    """Make or check the folder for the socket, which only `account` (and root) can enter, and return it.

    Raises:
        InvalidRequest: somebody else made that folder, or no place has a path short enough.
    """
    name = f"vodpress-{account.uid}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    for place in (folder / "s", Path(tempfile.gettempdir()).resolve() / name, Path("/tmp") / name):  # noqa: S108 - owner and mode are checked
        if _is_usable(place):
            _make_private(place, account)
            return place
    raise InvalidRequest(
        "home_path_too_long",
        f"The path {folder} is too long for a socket, and so is the folder for temporary files. "
        "Set VODPRESS_HOME or TMPDIR to a shorter path.",
    )


def _is_usable(place: Path) -> bool:
    """Short enough for a socket, and nothing in it that a conninfo would take for a list of hosts."""
    return len(os.fsencode(place / SOCKET)) <= _PATH_BYTES and "," not in str(place)


def _make_private(place: Path, account: Account) -> None:
    try:
        place.mkdir(mode=0o700)
    except FileExistsError:
        pass
    else:
        account.own(place)
    let_through(account, [place])
    facts = place.lstat()
    private = stat.S_ISDIR(facts.st_mode) and facts.st_uid == account.uid and not facts.st_mode & 0o077
    if not private:
        raise InvalidRequest(
            "socket_folder_unsafe",
            f"{place} is not a folder that only the database's account can enter. "
            "Remove it, or set VODPRESS_HOME to a shorter path.",
        )
