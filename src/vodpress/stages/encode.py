"""Encode: one slice of the source, from one decode, for every rung that still lacks it. Audio is one slice, whole.

Where an early watchable version is wanted, its rung is encoded by itself, before the others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import Failure, LeaseLost
from vodpress.domain.job import Claim, Discard, Done, JobKind, JobRequest, Outcome, Priority
from vodpress.domain.keys import rendition_key, slice_key
from vodpress.domain.plan import Slice
from vodpress.ports import (
    EncodeReport,
    EncodeSpeed,
    PlanRecord,
    Progress,
    RenditionRecord,
    StoredOutput,
    Transaction,
    VerifiedFile,
)
from vodpress.stages import encode_speed, package, stitch
from vodpress.stages.services import Services, Stage

_PROGRESS_EVERY_SECONDS = 3.0


class Args(BaseModel):
    """Which slice of which plan.

    Attributes:
        kind: what is encoded, video or the audio.
        early: whether it is the early rung alone; the others leave it to that job.
    """

    model_config = ConfigDict(frozen=True)
    asset_id: str
    plan_id: int
    kind: Literal["video", "audio"]
    index: int
    early: bool = False

    def covers(self, rendition: RenditionRecord, plan: PlanRecord) -> bool:
        """Whether the slice of this rendition is encoded by this job."""
        if rendition.kind != self.kind:
            return False
        return self.kind == "audio" or (rendition.name == plan.early_rung) == self.early


def request(plan: PlanRecord, *, kind: str, index: int, early: bool = False) -> JobRequest:
    """The job that encodes one slice."""
    awaited = early or (kind == "audio" and plan.early_rung is not None)
    return JobRequest(
        JobKind.ENCODE,
        {"asset_id": plan.asset_id, "plan_id": plan.id, "kind": kind, "index": index, "early": early},
        unique_key=f"encode:{plan.id}:{kind}:{index}" + (":early" if early else ""),
        priority=Priority.EARLY if awaited else Priority.NORMAL,
        bulk=plan.bulk,
    )


async def handle(args: Args, claim: Claim, services: Services) -> Outcome:
    """Encode what is missing; each output is stored and recorded by itself, so a failure repeats only its own."""
    async with services.work.begin() as transaction:
        await transaction.jobs.verify(claim)
        record = await transaction.plans.get(args.plan_id)
        if record is None:
            return Discard("the asset was deleted")
        names = [entry.name for entry in await transaction.plans.renditions(record.id) if args.covers(entry, record)]
        missing = list(await transaction.plans.claim_slices(record.id, names=names, index=args.index, claim=claim))
    failures: dict[str, Failure] = {}
    speeds: list[EncodeSpeed] = []
    if missing:
        async with services.scratch_folder(claim, expected_bytes=_expected_bytes(record, args, missing)) as folder:
            missing = await _record_found(missing, args, claim, record, folder, services)
            failures = await _encode(missing, args, claim, record, folder, services, speeds) if missing else {}
    if failures:
        raise next(iter(failures.values()))
    async with services.work.begin() as transaction:
        await transaction.jobs.complete(claim)
        for speed in speeds:
            await encode_speed.keep(transaction, speed)
    return Done()


async def give_up(args: Args, failure: Failure, transaction: Transaction) -> None:
    """The renditions that lack this slice fail; what they have is kept, and the others go on."""
    record = await transaction.plans.get(args.plan_id)
    for rendition in await transaction.plans.renditions(args.plan_id):
        if record is None or not args.covers(rendition, record):
            continue
        slices = await transaction.plans.slices(rendition.id)
        if any(part.index == args.index and part.state != "completed" for part in slices) and (
            await transaction.plans.fail_rendition(rendition.id, failure)
        ):
            data = {"rendition": rendition.name, "code": failure.code, "message": failure.message}
            await transaction.emit(Event(EventType.RENDITION_FAILED, args.asset_id, data))


STAGE = Stage(JobKind.ENCODE, Args, handle, give_up)


def _expected_bytes(record: PlanRecord, args: Args, missing: Sequence[RenditionRecord]) -> int:
    """Scratch space: every rung at its ceiling for the length of the slice."""
    if args.kind == "audio":
        return (
            0 if record.plan.audio is None else int(record.plan.duration_seconds * record.plan.audio.bitrate_kbps * 125)
        )
    seconds = record.plan.slices[args.index].frames / record.plan.frame_rate
    return int(seconds * sum(record.plan.rung(rendition.name).maxrate_kbps for rendition in missing) * 125)


def _key(record: PlanRecord, rendition: RenditionRecord, args: Args) -> str:
    if args.kind == "audio" or len(record.plan.slices) == 1:
        return rendition_key(record.prefix, rendition=rendition.name)
    return slice_key(record.prefix, rendition=rendition.name, index=args.index)


async def _record_found(
    missing: Sequence[RenditionRecord],
    args: Args,
    claim: Claim,
    record: PlanRecord,
    folder: Path,
    services: Services,
) -> list[RenditionRecord]:
    """Record outputs that an attempt stored before it died, and return the renditions that really lack the slice."""
    lacking = []
    for rendition in missing:
        key = _key(record, rendition, args)
        if args.kind == "audio" or await services.store.head(key) is None:
            lacking.append(rendition)
            continue
        part, rung = record.plan.slices[args.index], record.plan.rung(rendition.name)
        try:
            found = await services.transcoder.verify_slice(await services.on_disk(key, folder), record.plan, part, rung)
        except Failure:  # whatever lies there is not the slice; it is made anew and replaced
            lacking.append(rendition)
            continue
        await _record(rendition, args, claim, record, _stored(key, found), services)
    return lacking


async def _encode(
    missing: Sequence[RenditionRecord],
    args: Args,
    claim: Claim,
    record: PlanRecord,
    folder: Path,
    services: Services,
    speeds: list[EncodeSpeed],
) -> dict[str, Failure]:
    source = await services.on_disk(record.source_key, folder)
    report = _Reporter(claim, [rendition.id for rendition in missing], args.index, services)
    failures: dict[str, Failure] = {}
    # A run for all rungs that failed says nothing of each, so later attempts take them one by one.
    groups = [missing] if claim.attempt == 1 else [[rendition] for rendition in missing]
    for group in groups:
        try:
            made = await _run_tool(group, args, record, source, folder, report, services)
        except Failure as failure:
            failures |= {rendition.name: failure for rendition in group}
            continue
        failures |= made.failures
        part = record.plan.slices[args.index] if args.kind == "video" else None
        speeds.append(encode_speed.measure(record.plan, part, group, made, node=services.node))
        for rendition in group:
            if rendition.name in made.outputs:
                output = made.outputs[rendition.name]
                key = _key(record, rendition, args)
                try:
                    await services.store_file(key, output.path)
                except Failure as failure:  # a rung that cannot be stored holds up no other
                    failures[rendition.name] = failure
                    continue
                await _record(rendition, args, claim, record, _stored(key, output), services)
    return failures


async def _run_tool(
    group: Sequence[RenditionRecord],
    args: Args,
    record: PlanRecord,
    source: Path,
    folder: Path,
    report: _Reporter,
    services: Services,
) -> EncodeReport:
    plan = record.plan
    if args.kind == "video":
        part: Slice = plan.slices[args.index]
        rungs = [plan.rung(rendition.name) for rendition in group]
        return await services.transcoder.encode_slice(source, plan, part, rungs, folder, report, yields=record.bulk)
    if plan.audio is None:
        raise Failure("internal_error", f"Plan {record.plan_hash[:16]} has an audio job and no audio.")
    return await services.transcoder.encode_audio(source, plan, plan.audio, folder, report, yields=record.bulk)


def _stored(key: str, output: VerifiedFile) -> StoredOutput:
    return StoredOutput(key=key, bytes=output.bytes, sha256=output.sha256, frames=output.frames)


async def _record(
    rendition: RenditionRecord,
    args: Args,
    claim: Claim,
    record: PlanRecord,
    output: StoredOutput,
    services: Services,
) -> None:
    """Record one slice of one rendition; the last one hands the rendition on, in the same transaction."""
    async with services.work.begin() as transaction:
        await transaction.jobs.verify(claim)
        still_open = await transaction.plans.complete_slice(rendition.id, args.index, claim, output)
        if still_open:
            return
        if output.key == rendition_key(record.prefix, rendition=rendition.name):
            await package.record_rendition(transaction, rendition, output)
        elif await transaction.plans.start_stitching(rendition.id):
            await transaction.jobs.enqueue(stitch.request(record, rendition.name))


class _Reporter:
    """Writes progress at most every few seconds; learns there, too, that the lease was lost, and stops the tool."""

    def __init__(self, claim: Claim, rendition_ids: Sequence[int], index: int, services: Services) -> None:
        self._claim = claim
        self._rendition_ids = rendition_ids
        self._index = index
        self._services = services
        self._next = 0.0

    async def __call__(self, progress: Progress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PROGRESS_EVERY_SECONDS
        try:
            await self._services.work.report_progress(
                claim=self._claim,
                rendition_ids=self._rendition_ids,
                slice_index=self._index,
                done=progress.done_seconds,
                total=progress.total_seconds,
                speed=progress.speed,
            )
        except LeaseLost as lost:
            raise LeaseLost(f"encode of slice {self._index}: {lost}") from lost
