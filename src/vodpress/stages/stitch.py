"""Stitch: join the slices of one rendition without encoding, verify the whole, and record it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, Discard, Done, JobKind, JobRequest, Outcome, Priority
from vodpress.domain.keys import rendition_key
from vodpress.domain.rendition import RenditionState
from vodpress.ports import PlanRecord, StoredOutput, Transaction
from vodpress.stages import package
from vodpress.stages.services import Services, Stage


class Args(BaseModel):
    """Which rendition of which plan."""

    model_config = ConfigDict(frozen=True)
    asset_id: str
    plan_id: int
    rendition: str


def request(plan: PlanRecord, rendition: str) -> JobRequest:
    """The job that stitches one rendition; it goes before further slices, for others wait for it."""
    return JobRequest(
        JobKind.STITCH,
        {"asset_id": plan.asset_id, "plan_id": plan.id, "rendition": rendition},
        unique_key=f"stitch:{plan.id}:{rendition}",
        priority=Priority.UNBLOCKS,
        bulk=plan.bulk,
    )


async def handle(args: Args, claim: Claim, services: Services) -> Outcome:
    """Join, store, record; then drop the slices, which nothing needs any more."""
    async with services.work.begin() as transaction:
        await transaction.jobs.verify(claim)
        record = await transaction.plans.get(args.plan_id)
        if record is None:
            return Discard("the asset was deleted")
        renditions = await transaction.plans.renditions(record.id)
        rendition = next(rendition for rendition in renditions if rendition.name == args.rendition)
        slices = await transaction.plans.slices(rendition.id)
    if rendition.state is not RenditionState.STITCHING:
        return Discard(f"the rendition is {rendition.state} already")
    keys = [part.key for part in slices if part.key is not None]
    expected = sum(facts.bytes for facts in [await services.store.head(key) for key in keys] if facts is not None)
    async with services.scratch_folder(claim, expected_bytes=2 * expected) as folder:
        parts = []
        for key in keys:
            parts.append(await services.on_disk(key, folder))  # noqa: PERF401 - one after the other, in order
        output = folder / f"{args.rendition}.mp4"
        whole = await services.transcoder.stitch(parts, record.plan, output)
        key = rendition_key(record.prefix, rendition=args.rendition)
        await services.store_file(key, output)
    stored = StoredOutput(key=key, bytes=whole.bytes, sha256=whole.sha256, frames=whole.frames)
    async with services.work.begin() as transaction:
        await transaction.jobs.complete(claim)
        await package.record_rendition(transaction, rendition, stored)
    await services.store.delete(keys)
    return Done()


async def give_up(args: Args, failure: Failure, transaction: Transaction) -> None:
    """The rendition fails; its slices are kept."""
    for rendition in await transaction.plans.renditions(args.plan_id):
        if rendition.name == args.rendition and await transaction.plans.fail_rendition(rendition.id, failure):
            data = {"rendition": rendition.name, "code": failure.code, "message": failure.message}
            await transaction.emit(Event(EventType.RENDITION_FAILED, args.asset_id, data))


STAGE = Stage(JobKind.STITCH, Args, handle, give_up)
