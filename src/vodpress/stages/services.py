"""What every stage is given: the ports, a place for scratch files, and the policies that settings decide."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, JobKind, Outcome
from vodpress.ports import ObjectStore, Packager, Prober, Transaction, Transcoder, UnitOfWork

_KEYS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Policies:
    """Choices that settings make for the stages.

    Attributes:
        disk_reserve_bytes: free space that must remain on the scratch disk after a job took what it needs.
        decode_check, verify_decode: `sample`, `whole` or `none`; how much of a source and of a rendition is decoded
            to see whether it can be.
    """

    disk_reserve_bytes: int
    decode_check: str
    verify_decode: str


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a stage may touch."""

    work: UnitOfWork
    store: ObjectStore
    prober: Prober
    transcoder: Transcoder
    packager: Packager
    scratch: Path
    policies: Policies
    now: Callable[[], str]
    node: str = "localhost"

    @asynccontextmanager
    async def scratch_folder(self, claim: Claim, *, expected_bytes: int = 0) -> AsyncIterator[Path]:
        """A folder that belongs to one attempt and is removed after it.

        Raises:
            Failure: `disk_reserve_short` when `expected_bytes` would eat into the reserve.
        """
        folder = self.scratch / f"job-{claim.job_id}-{claim.claim_id}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self.require_disk(expected_bytes)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def require_disk(self, expected_bytes: int) -> None:
        """Raise `Failure("disk_reserve_short")` when the scratch disk has too little space."""
        free = shutil.disk_usage(self.scratch).free
        needed = expected_bytes + self.policies.disk_reserve_bytes
        if free < needed:
            raise Failure(
                "disk_reserve_short",
                f"{self.scratch} has {free / 1e9:.2f} GB free and this job needs {needed / 1e9:.2f} GB "
                f"({expected_bytes / 1e9:.2f} GB for its files, "
                f"{self.policies.disk_reserve_bytes / 1e9:.2f} GB in reserve).",
            )

    async def store_file(self, key: str, path: Path) -> None:
        """Store a file and look whether it arrived whole: what a storage says of a write is not enough.

        Raises:
            Failure: `storage_unavailable`, also when fewer bytes are there than were sent.
        """
        size = path.stat().st_size
        await self.store.put_file(key, path)
        facts = await self.store.head(key)
        if facts is None or facts.bytes != size:
            there = "nothing" if facts is None else f"{facts.bytes} bytes"
            raise Failure(
                "storage_unavailable",
                "The object storage confirmed a write that it did not make.",
                detail=f"{size} bytes were sent, {there} arrived",
                subject=key,
            )

    async def on_disk(self, key: str, folder: Path) -> Path:
        """The object as a local file: its own where the store is a local disk, else a copy in `folder`."""
        own = self.store.local_path(key)
        if own is not None:
            return own
        path = folder / key.rsplit("/", 1)[-1]
        await self.store.get_file(key, path)
        return path


async def delete_below(prefix: str, store: ObjectStore) -> None:
    """Remove every object whose key begins with `prefix`."""
    batch: list[str] = []
    async for facts in store.list(prefix):
        batch.append(facts.key)
        if len(batch) == _KEYS_AT_ONCE:
            await store.delete(batch)
            batch = []
    if batch:
        await store.delete(batch)


@dataclass(frozen=True, slots=True)
class Stage:
    """One job kind: how its arguments look, what it does, and what giving up on it means for its rows.

    `handle` settles the job itself, in its last transaction, when it returns `Done`.
    `give_up` runs in the transaction that buries the job.
    """

    kind: JobKind
    args: type[BaseModel]
    handle: Callable[..., Awaitable[Outcome]]
    give_up: Callable[..., Awaitable[None]]


GiveUp = Callable[[BaseModel, Failure, Transaction], Awaitable[None]]
