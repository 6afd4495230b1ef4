"""Upload: bring a source in, know it by its SHA-256, and hand it to ingest in one transaction."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from vodpress.domain.asset import AssetState
from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import Failure
from vodpress.domain.keys import incoming_key, source_key
from vodpress.domain.ladder import Ladder
from vodpress.domain.publication import ALL, PublishPolicy
from vodpress.ports import NewAsset, Transaction
from vodpress.stages import ingest
from vodpress.stages.services import Services

_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Submission:
    """What the owner says of a file."""

    tenant: str
    title: str
    passthrough: str
    ladder: Ladder
    publish: PublishPolicy = ALL
    bulk: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """A source that is whole, verified and stored."""

    sha256: str
    bytes: int
    key: str


async def receive_file(path: Path, *, upload_id: str, tenant: str, services: Services) -> Received:
    """Store a local file, reading it once: the hash is computed from the bytes on their way.

    Raises:
        Failure: `source_empty`, or what the storage raises.
    """
    incoming = incoming_key(upload_id=upload_id)
    digest = hashlib.sha256()
    size = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal size
        with path.open("rb") as file:
            while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                await asyncio.to_thread(digest.update, chunk)
                size += len(chunk)
                yield chunk

    try:
        await services.store.put_stream(incoming, chunks())
        if size == 0:
            raise Failure("source_empty", subject=path.name)
        sha256 = digest.hexdigest()
        key = source_key(tenant=tenant, sha256=sha256)
        if await services.store.head(key) is None:
            await services.store.move(incoming, key)
    finally:
        await services.store.delete([incoming])
    return Received(sha256=sha256, bytes=size, key=key)


async def finish(received: Received, submission: Submission, *, asset_id: str, services: Services) -> str:
    """Make the asset, or find the one that these bytes are already, and enqueue its ingest: one transaction.

    Returns:
        The asset's id: `asset_id`, or that of the asset that was there.
    """
    async with services.work.begin() as transaction:
        return await finish_in(transaction, received, submission, asset_id=asset_id)


async def finish_in(transaction: Transaction, received: Received, submission: Submission, *, asset_id: str) -> str:
    """`finish` inside the caller's transaction."""
    new = NewAsset(
        id=asset_id,
        tenant=submission.tenant,
        title=submission.title,
        passthrough=submission.passthrough,
        source_sha256=received.sha256,
        source_bytes=received.bytes,
        source_key=received.key,
    )
    if await transaction.assets.add(new):
        await transaction.emit(
            Event(
                EventType.UPLOAD_COMPLETED,
                asset_id,
                {"sha256": received.sha256, "bytes": received.bytes, "passthrough": submission.passthrough},
            )
        )
    else:
        known = await transaction.assets.by_source(
            tenant=submission.tenant, sha256=received.sha256, passthrough=submission.passthrough
        )
        if known is None:
            raise Failure("internal_error", f"Asset id {asset_id} is taken by another source.")
        asset_id = known.id
    if await transaction.assets.move(asset_id, AssetState.PROCESSING):
        await transaction.emit(Event(EventType.ASSET_PROCESSING, asset_id, {"passthrough": submission.passthrough}))
    await ingest.resolve_by_retry(transaction, asset_id, plan_id=None)
    await transaction.jobs.hasten_of_asset(asset_id)  # whoever submits it again has mended what they waited for
    args = ingest.Args(
        asset_id=asset_id, ladder=submission.ladder, publish=submission.publish.text, bulk=submission.bulk
    )
    await transaction.jobs.enqueue(ingest.request(args))
    return asset_id
