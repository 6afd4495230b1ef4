"""Objects in a bucket of S3, or of a server that speaks its protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.store import S3Store

from vodpress.adapters.storage.failures import check_size, disk_failure, s3_reported
from vodpress.adapters.storage.key_rules import PARTIAL, check_key, check_prefix
from vodpress.adapters.storage.threads import Handover, Stop, run
from vodpress.domain.failure import InvalidRequest
from vodpress.ports import ObjectFacts, ObjectMissing

if TYPE_CHECKING:  # obstore has these types in its stubs only
    from obstore import ObjectMeta, PutMode

LARGEST_COPY_BYTES = 5 * 1024**3
"""What S3 copies in one request."""

_LARGEST_CREATE_ONLY_BYTES = 64 * 1024 * 1024
_PART_BYTES = 8 * 1024 * 1024
_MOST_PARTS = 9_000  # S3 allows 10,000
_STREAM_PART_BYTES = 16 * 1024 * 1024  # a stream's length is unknown: 16 MiB parts allow for 150 GB
_IN_FLIGHT_BYTES = 32 * 1024 * 1024  # of one upload: the parts under way, but for the one that is being read
_READ_BYTES = 1024 * 1024
_PAGE = 1_000


class S3ObjectStore:
    """An `ObjectStore` over a bucket.

    Args:
        quick: a client with short timeouts, for requests that carry little and are answered at once.
        bulk: a client with long ones, for bodies and for what a server does with gigabytes. Before it is used, a quick
            request finds out whether the server is there.
        largest_copy_bytes: larger objects are moved through this machine.
    """

    def __init__(self, quick: S3Store, bulk: S3Store, *, largest_copy_bytes: int = LARGEST_COPY_BYTES) -> None:
        self._quick = quick
        self._bulk = bulk
        self._largest_copy_bytes = largest_copy_bytes

    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        """Store the file's bytes, in parts where it is large.

        With `create_only` it goes in one request, from memory, for not every server that speaks the protocol lets only
        one of two uploads in parts win; so it may have 64 MiB at most (`InvalidRequest`, code `object_too_large`).
        """
        check_key(key)

        def work(stop: Stop) -> None:
            wanted = path.stat().st_size
            if create_only and wanted > _LARGEST_CREATE_ONLY_BYTES:
                raise InvalidRequest(
                    "object_too_large",
                    f"'{key}' has {wanted} bytes; a create-only write to S3 has {_LARGEST_CREATE_ONLY_BYTES} at most.",
                )
            if create_only or wanted <= _PART_BYTES:
                self._put_whole(key, path.read_bytes(), create_only=create_only)
                return
            self._head("put_file", key)
            part_bytes = max(_PART_BYTES, -(-wanted // _MOST_PARTS))
            self._put_parts(key, blocks=_file_blocks(path, part_bytes, stop), part_bytes=part_bytes)
            self._check_size("put_file", key, wanted)

        await run(work)

    async def put_bytes(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Store `data`. `ObjectExists` may be this very write whose answer was lost: compare before giving up."""
        check_key(key)
        await run(lambda _stop: self._put_whole(key, data, create_only=create_only))

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Store what `chunks` yields, with up to three parts of 16 MiB in memory. If it raises, no object appears."""
        check_key(key)
        handover = Handover(chunks)

        def work(stop: Stop) -> None:
            self._head("put_stream", key)
            try:
                self._put_parts(key, blocks=handover.read(stop), part_bytes=_STREAM_PART_BYTES)
            except Exception:
                if handover.error is not None:  # it may look like one of the storage's own
                    raise handover.error from None
                raise
            self._check_size("put_stream", key, handover.bytes)

        try:
            await run(work)
        finally:
            await handover.close()

    async def get_file(self, key: str, path: Path) -> None:
        """Write the object to `path`. When that fails, `path` is removed."""
        check_key(key)

        def work(stop: Stop) -> None:
            facts = self._head("get_file", key)
            if facts is None:
                raise ObjectMissing(f"get_file: there is no object at '{key}'")
            try:
                with path.open("wb") as file:
                    for block in self._read("get_file", key):
                        stop.check()
                        file.write(block)
                check_size(path.stat().st_size, facts.bytes, "get_file", key)
            except OSError as error:
                path.unlink(missing_ok=True)
                raise disk_failure(error, "get_file", key) from error
            except BaseException:
                path.unlink(missing_ok=True)
                raise

        await run(work)

    async def get_bytes(self, key: str) -> bytes:
        """The whole of a small object."""
        check_key(key)

        def work(_stop: Stop) -> bytes:
            with s3_reported("get_bytes", key, reads=True):
                return bytes(self._quick.get(key).bytes())

        return await run(work)

    async def head(self, key: str) -> ObjectFacts | None:
        """Facts of the object, or `None`; also where the bucket is missing, as S3 does not tell the two apart."""
        check_key(key)
        return await run(lambda _stop: self._head("head", key))

    async def list(self, prefix: str) -> AsyncIterator[ObjectFacts]:
        """Every object whose key starts with `prefix` (`""`, or ending in `/`), in no particular order."""
        check_prefix(prefix)
        pages = self._quick.list(prefix or None, chunk_size=_PAGE)

        def next_page(_stop: Stop) -> Sequence[ObjectMeta]:
            with s3_reported("list", prefix):
                return next(pages, ())

        while page := await run(next_page):
            for meta in page:
                if not meta["path"].startswith(f"{PARTIAL}/"):
                    yield _facts(meta)

    async def move(self, source: str, target: str) -> None:
        """Give an object another key, replacing what is there. A taken target with a missing source is success."""
        check_key(source)
        check_key(target)

        def work(stop: Stop) -> None:
            if self._copy("move", source, target, stop):
                self._delete([source])
            elif self._head("move", target) is None:
                raise ObjectMissing(f"move: there is no object at '{source}'")

        await run(work)

    async def copy(self, source: str, target: str) -> None:
        """Give an object a second key, replacing what is there; done by the server up to 5 GiB."""
        check_key(source)
        check_key(target)

        def work(stop: Stop) -> None:
            if not self._copy("copy", source, target, stop) and self._head("copy", source) is None:
                raise ObjectMissing(f"copy: there is no object at '{source}'")

        await run(work)

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; absent ones are fine."""
        for key in keys:
            check_key(key)
        await run(lambda _stop: self._delete(keys))

    def local_path(self, key: str) -> Path | None:
        """`None`: there is no file."""
        check_key(key)
        return None

    async def sweep_partial(self, *, older_than_seconds: float) -> int:
        """Nothing here is left for us to sweep, so 0.

        Unfinished uploads in parts are no objects and cannot be listed through obstore; a lifecycle rule of the bucket
        (`AbortIncompleteMultipartUpload`) removes them, whatever `older_than_seconds` says.
        """
        del older_than_seconds
        return 0

    def _head(self, operation: str, key: str) -> ObjectFacts | None:
        try:
            with s3_reported(operation, key, reads=True):
                return _facts(self._quick.head(key))
        except ObjectMissing:
            return None

    def _check_size(self, operation: str, key: str, wanted: int) -> None:
        facts = self._head(operation, key)
        check_size(facts.bytes if facts else None, wanted, operation, key)

    def _put_whole(self, key: str, data: bytes, *, create_only: bool) -> None:
        mode: PutMode = "create" if create_only else "overwrite"
        client = self._quick if len(data) <= _PART_BYTES // 32 else self._bulk
        with s3_reported("put", key):
            client.put(key, data, mode=mode, use_multipart=False)
        self._check_size("put", key, len(data))

    def _put_parts(self, key: str, *, blocks: Iterator[bytes], part_bytes: int) -> None:
        with s3_reported("put", key):
            self._bulk.put(key, blocks, chunk_size=part_bytes, max_concurrency=max(1, _IN_FLIGHT_BYTES // part_bytes))

    def _read(self, operation: str, key: str) -> Iterator[bytes]:
        with s3_reported(operation, key, reads=True):
            blocks = iter(self._bulk.get(key).stream(min_chunk_size=_READ_BYTES))
            while (block := next(blocks, None)) is not None:
                yield block

    def _copy(self, operation: str, source: str, target: str, stop: Stop) -> bool:
        """Copy and return True; False when there is nothing to copy, or nowhere to copy it to but itself."""
        facts = self._head(operation, source)
        if facts is None or source == target:
            return False
        if facts.bytes <= self._largest_copy_bytes:
            with s3_reported(operation, source, reads=True):
                self._bulk.copy(source, target)
        else:
            self._copy_through(operation, source, target, facts.bytes, stop)
        self._check_size(operation, target, facts.bytes)
        return True

    def _copy_through(self, operation: str, source: str, target: str, wanted: int, stop: Stop) -> None:
        part_bytes = max(_PART_BYTES, -(-wanted // _MOST_PARTS))
        with ThreadPoolExecutor(1) as reader:  # obstore cannot read in the thread in which it asks for what to write

            def read(start: int) -> bytes:
                length = min(part_bytes, wanted - start)
                with s3_reported(operation, source, reads=True):
                    return bytes(self._bulk.get_range(source, start=start, length=length))

            def blocks() -> Iterator[bytes]:
                for start in range(0, wanted, part_bytes):
                    stop.check()
                    yield reader.submit(read, start).result()

            self._put_parts(target, blocks=blocks(), part_bytes=part_bytes)

    def _delete(self, keys: Sequence[str]) -> None:
        if keys:
            with s3_reported("delete", keys[0]):
                self._quick.delete(keys)


def _file_blocks(path: Path, part_bytes: int, stop: Stop) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(part_bytes):
            stop.check()
            yield block


def _facts(meta: ObjectMeta) -> ObjectFacts:
    return ObjectFacts(key=meta["path"], bytes=meta["size"], modified_at=meta["last_modified"].timestamp())
