"""Objects as files of one folder, written so that a power cut leaves each of them whole or absent."""

from __future__ import annotations

import errno
import os
import stat
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from pathlib import Path

from vodpress.adapters.storage.durable import copy_contents, place, prune, sync_names, write_all
from vodpress.adapters.storage.failures import check_size, disk_failure
from vodpress.adapters.storage.key_rules import PARTIAL, check_key, check_prefix
from vodpress.adapters.storage.threads import Stop, in_blocks, run
from vodpress.ports import ObjectExists, ObjectFacts, ObjectMissing


class LocalObjectStore:
    """An `ObjectStore` over a folder, which must lie on one file system that has hard links.

    A write goes to `<root>/.partial/<random>`, is synced to disk, and only then gets its key by an atomic link
    (create-only) or rename. The folder itself is made when the store is opened and never again, so that an unmounted
    disk is an error and not an empty store.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._partial = self._root / PARTIAL
        with self._reported("open", str(self._root)):
            self._partial.mkdir(parents=True, exist_ok=True)

    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        """Store the file's bytes; copied by the kernel, without passing through this process."""
        target = self._path(key)

        def work(stop: Stop) -> None:
            with path.open("rb") as source, self._partial_file("put_file", key) as (part, descriptor):
                wanted = os.fstat(source.fileno()).st_size
                copy_contents(source.fileno(), descriptor, stop)
                self._settle(part, descriptor, target, wanted=wanted, key=key, create_only=create_only)

        await run(work)

    async def put_bytes(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Store `data`."""
        target = self._path(key)

        def work(_stop: Stop) -> None:
            with self._partial_file("put_bytes", key) as (part, descriptor):
                write_all(descriptor, data)
                self._settle(part, descriptor, target, wanted=len(data), key=key, create_only=create_only)

        await run(work)

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Store what `chunks` yields. If it raises, no object appears."""
        target = self._path(key)
        part = self._partial / uuid.uuid4().hex
        written = 0
        try:
            async with aclosing(in_blocks(chunks)) as blocks:
                async for block in blocks:
                    await run(partial(self._append, part, block, key))
                    written += len(block)
            await run(partial(self._finish, part, target, written, key))
        finally:
            part.unlink(missing_ok=True)

    async def get_file(self, key: str, path: Path) -> None:
        """Write the object to `path`. When that fails, `path` is removed."""
        source = self._path(key)

        def work(stop: Stop) -> None:
            with self._reported("get_file", key), self._opened(source, "get_file", key) as descriptor:
                try:
                    with path.open("wb") as target:
                        copy_contents(descriptor, target.fileno(), stop)
                        copied, wanted = os.fstat(target.fileno()).st_size, os.fstat(descriptor).st_size
                        check_size(copied, wanted, "get_file", key)
                except BaseException:
                    path.unlink(missing_ok=True)
                    raise

        await run(work)

    async def get_bytes(self, key: str) -> bytes:
        """The whole of a small object."""
        source = self._path(key)

        def work(_stop: Stop) -> bytes:
            with (
                self._reported("get_bytes", key),
                self._opened(source, "get_bytes", key) as descriptor,
                os.fdopen(descriptor, "rb", closefd=False) as file,
            ):
                return file.read()

        return await run(work)

    async def head(self, key: str) -> ObjectFacts | None:
        """Facts of the object, or `None`."""
        path = self._path(key)

        def work(_stop: Stop) -> ObjectFacts | None:
            with self._reported("head", key):
                try:
                    found = path.stat()
                except (FileNotFoundError, NotADirectoryError):
                    self._root.stat()  # a missing root is a missing disk, not a missing object
                    return None
            return _facts(key, found) if stat.S_ISREG(found.st_mode) else None

        return await run(work)

    async def list(self, prefix: str) -> AsyncIterator[ObjectFacts]:
        """Every object whose key starts with `prefix` (`""`, or ending in `/`), in no particular order."""
        check_prefix(prefix)
        folders = [prefix]
        while folders:
            found, below = await run(partial(self._scan, folders.pop()))
            folders += below
            for facts in found:
                yield facts

    async def move(self, source: str, target: str) -> None:
        """Give an object another key, replacing what is there. A taken target with a missing source is success."""
        old, new = self._path(source), self._path(target)

        def work(_stop: Stop) -> None:
            with self._reported("move", f"{source} → {target}"):
                if not old.is_file():
                    self._root.stat()
                    if new.is_file():
                        return
                    raise ObjectMissing(f"move: there is no object at '{source}'")
                if source == target:
                    return
                if new.is_file() and old.samefile(new):
                    old.unlink()  # one is a copy of the other, and rename() does nothing between two links of a file
                else:
                    place(partial(old.replace, new), new, root=self._root)
                sync_names(old.parent)
                prune(old.parent, root=self._root)

        await run(work)

    async def copy(self, source: str, target: str) -> None:
        """Give an object a second key, replacing what is there.

        The keys share one file. No write ever changes a file that has a key (it replaces it), so neither key can see
        what is done to the other; and a copy costs neither time nor space.
        """
        old, new = self._path(source), self._path(target)

        def work(stop: Stop) -> None:
            with self._reported("copy", f"{source} → {target}"), self._opened(old, "copy", source) as descriptor:
                if source != target:
                    os.utime(descriptor)  # or a sweep by age takes the new link for an old one
                    self._link(old, descriptor, new, key=target, stop=stop)

        await run(work)

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, and the folders that are empty then; absent ones are fine."""
        paths = [self._path(key) for key in keys]

        def work(stop: Stop) -> None:
            for key, path in zip(keys, paths, strict=True):
                stop.check()
                with self._reported("delete", key):
                    if path.is_file():
                        path.unlink(missing_ok=True)
                        prune(path.parent, root=self._root)

        await run(work)

    def local_path(self, key: str) -> Path | None:
        """Where the object's file is, or would be. Read only."""
        return self._path(key)

    async def sweep_partial(self, *, older_than_seconds: float) -> int:
        """Remove what writes left behind that died longer ago than that; returns how many."""

        def work(_stop: Stop) -> int:
            removed = 0
            with self._reported("sweep", PARTIAL):
                for path in self._partial.iterdir():
                    with suppress(FileNotFoundError):
                        if time.time() - path.stat().st_mtime > older_than_seconds:
                            path.unlink()
                            removed += 1
            return removed

        return await run(work)

    def _path(self, key: str) -> Path:
        return self._root / check_key(key)

    @contextmanager
    def _reported(self, operation: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise disk_failure(error, operation, f"{key} in {self._root}") from error

    @contextmanager
    def _partial_file(self, operation: str, key: str) -> Iterator[tuple[Path, int]]:
        part = self._partial / uuid.uuid4().hex
        with self._reported(operation, key):
            try:
                with self._appending(part) as descriptor:
                    yield part, descriptor
            finally:
                part.unlink(missing_ok=True)

    @contextmanager
    def _appending(self, part: Path) -> Iterator[int]:
        self._partial.mkdir(exist_ok=True)  # somebody may have tidied it away; the root is never made again
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.lseek(descriptor, 0, os.SEEK_END)  # O_APPEND would forbid copy_file_range
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _opened(self, path: Path, operation: str, key: str) -> Iterator[int]:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            self._root.stat()
            raise ObjectMissing(f"{operation}: there is no object at '{key}'") from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ObjectMissing(f"{operation}: there is no object at '{key}'")
            yield descriptor
        finally:
            os.close(descriptor)

    def _append(self, part: Path, block: bytes, key: str, _stop: Stop) -> None:
        with self._reported("put_stream", key), self._appending(part) as descriptor:
            write_all(descriptor, block)

    def _finish(self, part: Path, target: Path, written: int, key: str, _stop: Stop) -> None:
        with self._reported("put_stream", key), self._appending(part) as descriptor:
            self._settle(part, descriptor, target, wanted=written, key=key, create_only=False)

    def _settle(self, part: Path, descriptor: int, target: Path, *, wanted: int, key: str, create_only: bool) -> None:
        """Make a written part the object: verify, sync, then link or rename it into place."""
        check_size(os.fstat(descriptor).st_size, wanted, "put", key)
        os.fsync(descriptor)
        if not create_only:
            place(partial(part.replace, target), target, root=self._root)
            return
        try:
            place(partial(os.link, part, target), target, root=self._root)
        except FileExistsError:
            raise ObjectExists(f"put: there is an object at '{key}' already") from None

    def _link(self, old: Path, descriptor: int, new: Path, *, key: str, stop: Stop) -> None:
        part = self._partial / uuid.uuid4().hex
        try:
            self._partial.mkdir(exist_ok=True)
            os.link(old, part)
        except OSError as error:
            if error.errno not in {errno.EMLINK, errno.ENOENT}:  # no further link, or none any more: the bytes, then
                raise
            with self._partial_file("copy", key) as (written, target):
                copy_contents(descriptor, target, stop)
                wanted = os.fstat(descriptor).st_size
                self._settle(written, target, new, wanted=wanted, key=key, create_only=False)
            return
        try:
            place(partial(part.replace, new), new, root=self._root)
        finally:
            part.unlink(missing_ok=True)  # rename() leaves it where `new` was a link of the same file already

    def _scan(self, prefix: str, _stop: Stop) -> tuple[Sequence[ObjectFacts], Sequence[str]]:
        files: list[ObjectFacts] = []
        folders: list[str] = []
        with self._reported("list", prefix):
            try:
                with os.scandir(self._root / prefix) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(f"{prefix}{entry.name}/")
                        elif entry.is_file(follow_symlinks=False):
                            with suppress(FileNotFoundError):
                                files.append(_facts(prefix + entry.name, entry.stat(follow_symlinks=False)))
            except (FileNotFoundError, NotADirectoryError):
                self._root.stat()
        return files, [folder for folder in folders if folder != f"{PARTIAL}/"]


def _facts(key: str, found: os.stat_result) -> ObjectFacts:
    return ObjectFacts(key=key, bytes=found.st_size, modified_at=found.st_mtime)
