"""Package: HLS and DASH over the same segments, every file verified and stored, the manifest last; then publish."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from vodpress.domain import manifest
from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, Discard, Done, JobKind, JobRequest, Outcome, Priority
from vodpress.domain.keys import MANIFEST_NAME, version_prefix
from vodpress.domain.publication import is_settled, next_contents
from vodpress.domain.rendition import PlanState, RenditionState
from vodpress.ports import (
    AssetRecord,
    ObjectExists,
    PackageResult,
    PlanRecord,
    RenditionRecord,
    StoredOutput,
    TrackInput,
    Transaction,
)
from vodpress.stages.publish import publish
from vodpress.stages.services import Services, Stage

_UPLOADS_AT_ONCE = 8


class Args(BaseModel):
    """Which plan, the number of its version, and what that holds: fixed, so that every attempt makes the same files."""

    model_config = ConfigDict(frozen=True)
    asset_id: str
    plan_id: int
    version: int
    renditions: tuple[str, ...]
    waived: tuple[str, ...]
    images: bool


async def ask_for_version(transaction: Transaction, plan_id: int) -> int:
    """Enqueue the next version of a plan where its policy allows one and there is something new to show.

    Returns:
        How many jobs were enqueued: none while a version is being made; that job asks again when it is done.
    """
    plan = await transaction.plans.get(plan_id, lock=True)
    if plan is None or plan.state is PlanState.FAILED:
        return 0
    states = {rendition.name: rendition.state for rendition in await transaction.plans.renditions(plan_id)}
    published = await transaction.manifests.of_plan(plan_id)
    contents = next_contents(
        plan.publish,
        plan.plan,
        states,
        images=plan.images is not None,
        published=published.contents if published else None,
    )
    if contents is None:
        return 0
    if is_settled(states) and plan.state is PlanState.ENCODING:
        await transaction.plans.move(plan_id, PlanState.PACKAGING)
    reservation = await transaction.manifests.reserve_version(plan_id, contents)
    args = Args(asset_id=plan.asset_id, plan_id=plan_id, version=reservation.version, **asdict(reservation.contents))
    return await transaction.jobs.enqueue(
        JobRequest(
            JobKind.PACKAGE,
            args.model_dump(mode="json"),
            unique_key=f"package:{plan_id}",
            priority=Priority.UNBLOCKS,
        )
    )


async def record_rendition(transaction: Transaction, rendition: RenditionRecord, output: StoredOutput) -> None:
    """Fan-in: record a whole rendition; the one that makes a version possible enqueues it, in the same transaction.

    Recording counts the plan down under its row's lock, so of two that finish at once exactly one sees the other.
    """
    if await transaction.plans.complete_rendition(rendition.id, output) is None:
        return
    plan = await transaction.plans.get(rendition.plan_id)
    if plan is None:
        return
    data = {"rendition": rendition.name, "plan_hash": plan.plan_hash, "frames": output.frames, "bytes": output.bytes}
    await transaction.emit(Event(EventType.RENDITION_COMPLETED, plan.asset_id, data))
    await ask_for_version(transaction, plan.id)


async def handle(args: Args, claim: Claim, services: Services) -> Outcome:
    """Make, verify and store one version; a manifest that is there already only has to be recorded."""
    async with services.work.begin() as transaction:
        await transaction.jobs.verify(claim)
        record = await transaction.plans.get(args.plan_id)
        asset = await transaction.assets.get(args.asset_id)
        if record is None or asset is None or asset.probe is None:
            return Discard("the asset was deleted")
        renditions = [
            rendition
            for rendition in await transaction.plans.renditions(record.id)
            if rendition.name in args.renditions
        ]
    prefix = version_prefix(record.prefix, version=args.version)
    manifest_key = prefix + MANIFEST_NAME
    if await services.store.head(manifest_key) is None:
        await _make(args, claim, asset, record, renditions, prefix, services)
    written = await services.store.get_bytes(manifest_key)
    document = json.loads(written)
    async with services.work.begin() as transaction:
        await transaction.jobs.complete(claim)
        locked = await transaction.plans.get(args.plan_id, lock=True)
        if locked is None:
            return Discard("the asset was deleted")
        sha256 = hashlib.sha256(written).hexdigest()
        await publish(transaction, locked, version=args.version, prefix=prefix, sha256=sha256, document=document)
        await ask_for_version(transaction, args.plan_id)  # for what came while this version was made
    return Done()


async def give_up(args: Args, failure: Failure, transaction: Transaction) -> None:
    """Only the packaging failed: every rendition is kept."""
    del failure  # the dead letter keeps it
    await transaction.plans.move(args.plan_id, PlanState.FAILED)


STAGE = Stage(JobKind.PACKAGE, Args, handle, give_up)


async def _make(
    args: Args,
    claim: Claim,
    asset: AssetRecord,
    record: PlanRecord,
    renditions: Sequence[RenditionRecord],
    prefix: str,
    services: Services,
) -> None:
    facts = [await services.store.head(rendition.key) for rendition in renditions if rendition.key]
    expected = 2 * sum(entry.bytes for entry in facts if entry is not None)
    async with services.scratch_folder(claim, expected_bytes=expected) as folder:
        tracks = await _tracks(record, renditions, folder, services)
        for track in tracks:
            if services.policies.verify_decode != "none":
                whole = services.policies.verify_decode == "whole"
                await services.transcoder.check_decodes(track.path, record.plan, whole=whole)
        output = folder / "package"
        output.mkdir()
        result = await services.packager.package(tracks, record.plan, output)
        if args.images:
            await _add_images(record, output, services)
        checksums = await _store(output, prefix, services)
        document = _document(args, asset, record, renditions, result, checksums, services)
        try:
            await services.store.put_bytes(prefix + MANIFEST_NAME, manifest.to_json(document), create_only=True)
        except ObjectExists:
            return  # an attempt that was thought dead wrote it; the same input made it, so it is as good


async def _tracks(
    record: PlanRecord, renditions: Sequence[RenditionRecord], folder: Path, services: Services
) -> list[TrackInput]:
    tracks = []
    for rendition in renditions:
        if rendition.state is not RenditionState.COMPLETED or rendition.key is None:
            raise Failure("dependency_pending", f"Rendition {rendition.name} is {rendition.state}.")
        tracks.append(
            TrackInput(
                name=rendition.name,
                path=await services.on_disk(rendition.key, folder),
                rung=record.plan.rung(rendition.name) if rendition.kind == "video" else None,
                audio=record.plan.audio if rendition.kind == "audio" else None,
            )
        )
    return tracks


async def _add_images(record: PlanRecord, output: Path, services: Services) -> None:
    for file in record.images["files"] if record.images else ():
        target = output / file["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        await services.store.get_file(file["key"], target)


def _document(
    args: Args,
    asset: AssetRecord,
    record: PlanRecord,
    renditions: Sequence[RenditionRecord],
    result: PackageResult,
    checksums: Mapping[str, tuple[int, str]],
    services: Services,
) -> dict[str, Any]:
    """The manifest of this version: what was packaged, with the facts that were recorded and measured."""
    if asset.probe is None or asset.source_sha256 is None:
        raise Failure("internal_error", f"Asset {asset.id} is packaged and was never looked into.")
    plan = record.plan
    frames = {rendition.name: rendition.frames or 0 for rendition in renditions}

    def files(paths: Sequence[str]) -> tuple[manifest.FileFacts, ...]:
        return tuple(manifest.FileFacts(path, *checksums[path]) for path in paths)

    tracks = {
        track.name: manifest.TrackFacts(
            name=track.name,
            codecs=track.codecs,
            bandwidth=track.bandwidth,
            average_bandwidth=track.average_bandwidth,
            frames=frames[track.name],
            files=files(track.files),
        )
        for track in result.tracks
    }
    images = None
    if args.images and record.images:
        paths = [str(file["path"]) for file in record.images["files"]]
        images = manifest.ImageFacts(record.images["poster"], record.images["storyboard"], files(paths))
    listed = {path for track in result.tracks for path in track.files}
    return manifest.build(
        asset=asset.id,
        version=args.version,
        source_sha256=asset.source_sha256,
        probe=asset.probe,
        plan_hash=record.plan_hash,
        ladder=record.ladder_name,
        duration_seconds=plan.duration_seconds,
        frame_rate=plan.frame_rate,
        renditions=[(rung, tracks[rung.name]) for rung in plan.rungs if rung.name in tracks],
        audio=[(plan.audio, tracks[plan.audio.name])] if plan.audio and plan.audio.name in tracks else [],
        images=images,
        missing={
            rung.name: "waived" if rung.name in args.waived else "pending"
            for rung in plan.rungs
            if rung.name not in args.renditions
        },
        playback=manifest.PlaybackFacts(
            result.hls, result.dash, files([path for path in result.files if path not in listed])
        ),
        created_at=services.now(),
    )


async def _store(output: Path, prefix: str, services: Services) -> dict[str, tuple[int, str]]:
    """Hash and store every file below `output`; path → (bytes, sha256)."""
    paths = sorted(path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file())
    checksums: dict[str, tuple[int, str]] = {}
    turns = asyncio.Semaphore(_UPLOADS_AT_ONCE)

    async def put(path: str) -> None:
        async with turns:
            file = output / path
            checksums[path] = (file.stat().st_size, await asyncio.to_thread(_sha256, file))
            await services.store_file(prefix + path, file)

    async with asyncio.TaskGroup() as group:
        for path in paths:
            group.create_task(put(path))
    return {path: checksums[path] for path in paths}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
