"""File operations that have reached the disk when they return."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vodpress.adapters.storage.threads import Stop

_COPY_STEP_BYTES = 64 * 1024 * 1024
_NOT_IN_KERNEL = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
_PLACE_TRIES = 16  # `prune` may remove an empty folder just before a write uses it


def copy_contents(source: int, target: int, stop: Stop) -> None:
    """Copy one open file to the other without passing the bytes through this process.

    `copy_file_range` shares blocks where the file system can; `sendfile` is for pairs of file systems that refuse it.
    """
    while True:
        stop.check()
        try:
            copied = os.copy_file_range(source, target, _COPY_STEP_BYTES)
        except OSError as error:
            if error.errno not in _NOT_IN_KERNEL:
                raise
            copied = os.sendfile(target, source, None, _COPY_STEP_BYTES)
        if not copied:
            return


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; one `write` may take fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(folder: Path) -> None:
    """`sync_folder` for one that another caller may have emptied and removed: then nothing is left to keep."""
    with suppress(FileNotFoundError):
        sync_folder(folder)


def place(step: Callable[[], object], target: Path, *, root: Path) -> None:
    """Run `step`, which gives a synced file the name `target`, in a folder that is made below `root` where missing."""
    for left in reversed(range(_PLACE_TRIES)):
        try:
            _make_folder(target.parent, root)
            step()
        except FileNotFoundError:
            if not left:
                raise
        else:
            sync_names(target.parent)
            return


def prune(folder: Path, *, root: Path) -> None:
    """Remove `folder` and the folders above it, up to `root`, as far as they are empty."""
    with suppress(OSError):  # not empty any more, or gone already
        while folder != root:
            folder.rmdir()
            folder = folder.parent


def _make_folder(folder: Path, root: Path) -> None:
    if folder == root or folder.is_dir():
        return
    _make_folder(folder.parent, root)
    with suppress(FileExistsError):
        folder.mkdir()
    sync_folder(folder.parent)
