"""Object storage as the stages see it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vodpress.domain.failure import VodpressError


class ObjectExists(VodpressError):
    """A create-only write found the key taken."""


class ObjectMissing(VodpressError):
    """There is no object at the key."""


@dataclass(frozen=True, slots=True)
class ObjectFacts:
    """What a listing or a look-up tells of an object. `modified_at` is seconds since 1970, UTC."""

    key: str
    bytes: int
    modified_at: float


class ObjectStore(Protocol):
    """Keys to bytes. A key is seen whole or not at all.

    Every method raises `Failure("storage_unavailable")` when the storage does not answer and `Failure("disk_full")`
    when a local disk is full.
    """

    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        """Store the file's bytes. With `create_only`, raises `ObjectExists` when the key is taken."""
        ...

    async def put_bytes(self, key: str, data: bytes, *, create_only: bool = False) -> None:
        """Store `data`. With `create_only`, raises `ObjectExists` when the key is taken."""
        ...

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Store what `chunks` yields, in bounded memory. If it raises, no object appears."""
        ...

    async def get_file(self, key: str, path: Path) -> None:
        """Write the object to `path`, in bounded memory. Raises `ObjectMissing`."""
        ...

    async def get_bytes(self, key: str) -> bytes:
        """The whole of a small object. Raises `ObjectMissing`."""
        ...

    async def head(self, key: str) -> ObjectFacts | None:
        """Facts of the object, or `None`."""
        ...

    def list(self, prefix: str) -> AsyncIterator[ObjectFacts]:
        """Every object whose key starts with `prefix` (a whole path segment, ending in `/`)."""
        ...

    async def move(self, source: str, target: str) -> None:
        """Give an object another key. Idempotent: a taken target with a missing source is success."""
        ...

    async def copy(self, source: str, target: str) -> None:
        """Give an object a second key. Raises `ObjectMissing`."""
        ...

    async def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; absent ones are fine."""
        ...

    def local_path(self, key: str) -> Path | None:
        """The object's own file, read-only, where the storage is a local disk; else `None`."""
        ...
