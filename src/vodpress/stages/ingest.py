"""Ingest: look into the source, plan its renditions, and fan out the work in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from vodpress.domain.asset import AssetState
from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import Failure, FailureKind
from vodpress.domain.job import Claim, Discard, Done, JobKind, JobRequest, Outcome
from vodpress.domain.keys import plan_prefix, rendition_key
from vodpress.domain.ladder import Ladder
from vodpress.domain.media import Probe
from vodpress.domain.plan import Plan, fingerprint, make_plan
from vodpress.domain.rendition import PlanState, RenditionState, SliceState
from vodpress.ports import AssetRecord, NewRendition, PlanRecord, StoredOutput, Transaction
from vodpress.stages import encode, package, stitch, thumbnails
from vodpress.stages.services import Services, Stage


class Args(BaseModel):
    """Which asset, and the ladder as its owner chose it."""

    model_config = ConfigDict(frozen=True)
    asset_id: str
    ladder: Ladder


def request(asset_id: str, ladder: Ladder) -> JobRequest:
    """The job that ingests an asset with a ladder."""
    args = Args(asset_id=asset_id, ladder=ladder)
    ladder_hash = hashlib.sha256(ladder.model_dump_json().encode()).hexdigest()[:16]
    return JobRequest(JobKind.INGEST, args.model_dump(mode="json"), unique_key=f"ingest:{asset_id}:{ladder_hash}")


async def handle(args: Args, claim: Claim, services: Services) -> Outcome:
    """Probe once, plan, and fan out what is missing; a plan that is there already is only completed."""
    async with services.work.begin() as transaction:
        asset = await transaction.assets.get(args.asset_id)
    if asset is None or asset.source_key is None:
        return Discard("the asset was deleted")
    probe = asset.probe or await _examine(asset, asset.source_key, claim, services)
    plan = make_plan(probe, args.ladder)
    plan_hash = hash_plan(plan, services)
    async with services.work.begin() as transaction:
        is_new = await transaction.plans.by_hash(asset.id, plan_hash) is None
    if is_new:
        services.require_disk(plan.most_bytes)
    copies = await _copy_known_renditions(asset, plan, plan_hash, services) if is_new else {}
    async with services.work.begin() as transaction:
        if await transaction.assets.get(asset.id, lock=True) is None:
            return Discard("the asset was deleted")
        if asset.probe is None:
            await transaction.assets.set_probe(asset.id, probe)
        await _fan_out(transaction, asset, args.ladder.name, plan, plan_hash, copies, services)
        await transaction.jobs.complete(claim)
    return Done()


def hash_plan(plan: Plan, services: Services) -> str:
    """The plan hash, over the plan, its exact commands and the tools that run them."""
    tools = {**services.transcoder.versions(), **services.packager.versions()}
    commands = [*services.transcoder.commands(plan), services.packager.command(plan)]
    return fingerprint(plan, commands=commands, tools=tools)


async def give_up(args: Args, failure: Failure, transaction: Transaction) -> None:
    """A source at fault makes the asset `errored`; a fault of ours is no verdict on it."""
    if failure.kind is FailureKind.CONTENT and await transaction.assets.move(
        args.asset_id, AssetState.ERRORED, reason=failure
    ):
        data = {"code": failure.code, "message": failure.message}
        await transaction.emit(Event(EventType.ASSET_ERRORED, args.asset_id, data))


STAGE = Stage(JobKind.INGEST, Args, handle, give_up)


async def _examine(asset: AssetRecord, source_key: str, claim: Claim, services: Services) -> Probe:
    local = services.store.local_path(source_key)
    expected = 0 if local else (asset.source_bytes or 0)
    async with services.scratch_folder(claim, expected_bytes=expected) as folder:
        source = await services.on_disk(source_key, folder)
        probe = await services.prober.probe(source)
        if services.policies.decode_check != "none":
            await services.prober.decode_check(source, probe, whole=services.policies.decode_check == "whole")
    return probe


def _new_renditions(plan: Plan, services: Services) -> list[NewRendition]:
    tools = services.transcoder.versions()

    def rung_hash(alone: Plan) -> str:
        return fingerprint(alone, commands=services.transcoder.commands(alone), tools=tools)

    renditions = [
        NewRendition(
            name=rung.name,
            kind="video",
            required=rung.required,
            rung_hash=rung_hash(plan.model_copy(update={"rungs": (rung,), "audio": None})),
            slices=len(plan.slices),
            weight=float(rung.width * rung.height * plan.frames),
        )
        for rung in plan.rungs
    ]
    if plan.audio is not None:
        renditions.append(
            NewRendition(
                name=plan.audio.name,
                kind="audio",
                required=True,
                rung_hash=rung_hash(plan.model_copy(update={"rungs": ()})),
                slices=1,
                weight=float(plan.duration_seconds * plan.audio.sample_rate_hz),
            )
        )
    return renditions


async def _copy_known_renditions(
    asset: AssetRecord, plan: Plan, plan_hash: str, services: Services
) -> dict[str, StoredOutput]:
    """Copy renditions that were made before from the same bytes with the same settings, for any asset of the tenant."""
    sha256 = asset.source_sha256 or ""
    async with services.work.begin() as transaction:
        known = {
            new.name: await transaction.plans.reusable(
                tenant=asset.tenant, source_sha256=sha256, rung_hash=new.rung_hash
            )
            for new in _new_renditions(plan, services)
        }
    prefix = plan_prefix(asset_id=asset.id, source_sha256=sha256, plan_hash=plan_hash)
    copies: dict[str, StoredOutput] = {}
    for name, output in known.items():
        if output is not None and await services.store.head(output.key) is not None:
            key = rendition_key(prefix, rendition=name)
            await services.store.copy(output.key, key)
            copies[name] = StoredOutput(key=key, bytes=output.bytes, sha256=output.sha256, frames=output.frames)
    return copies


async def _fan_out(
    transaction: Transaction,
    asset: AssetRecord,
    ladder_name: str,
    plan: Plan,
    plan_hash: str,
    copies: dict[str, StoredOutput],
    services: Services,
) -> None:
    plan_id = await transaction.plans.add(
        asset_id=asset.id,
        plan_hash=plan_hash,
        ladder_name=ladder_name,
        plan=plan,
        renditions=_new_renditions(plan, services),
    )
    if plan_id is not None:
        for rendition in await transaction.plans.renditions(plan_id):
            if rendition.name in copies:
                await package.record_rendition(transaction, rendition, copies[rendition.name])
    record = await transaction.plans.by_hash(asset.id, plan_hash, lock=True)
    if record is None:
        raise Failure("internal_error", f"The plan {plan_hash[:16]} of asset {asset.id} vanished while locked.")
    if record.state is PlanState.FAILED or any(
        rendition.state is RenditionState.FAILED for rendition in await transaction.plans.renditions(record.id)
    ):
        await transaction.plans.reopen(record.id)
    await resolve_by_retry(transaction, asset.id, plan_id=record.id)
    await transaction.jobs.enqueue(*await missing_jobs(transaction, record))


async def resolve_by_retry(transaction: Transaction, asset_id: str, *, plan_id: int | None) -> None:
    """Take back what was given up for a plan, or before there was one: its work is asked for again."""
    for letter in await transaction.dead_letters.resolve(asset_id, "retry", plan_id=plan_id):
        data = {"dead_letter": letter.id, "resolution": "retry"}
        await transaction.emit(Event(EventType.DEAD_LETTER_RESOLVED, asset_id, data))


async def missing_jobs(transaction: Transaction, record: PlanRecord) -> Sequence[JobRequest]:
    """Every job that the rows of a plan still call for; the queue leaves out those that wait or run already."""
    jobs: list[JobRequest] = []
    open_slices: set[tuple[str, int]] = set()
    for rendition in await transaction.plans.renditions(record.id):
        if rendition.state is RenditionState.STITCHING:
            jobs.append(stitch.request(record, rendition.name))
        elif rendition.state in {RenditionState.PENDING, RenditionState.ENCODING}:
            slices = await transaction.plans.slices(rendition.id)
            open_slices |= {(rendition.kind, part.index) for part in slices if part.state is not SliceState.COMPLETED}
    jobs += [encode.request(record, kind=kind, index=index) for kind, index in sorted(open_slices)]
    if record.renditions_open == 0 and record.state is not PlanState.PUBLISHED:
        await package.enqueue(transaction, record)
    if record.images_state != "completed":
        jobs.append(thumbnails.request(record))
    elif record.state is PlanState.PUBLISHED:
        published = await transaction.manifests.of_plan(record.id)
        if published is not None and not published.document["images"]:
            await package.enqueue(transaction, record)
    return jobs
