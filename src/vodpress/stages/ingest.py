"""Ingest: look into the source, plan its renditions, and fan out the work in one transaction."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict

from vodpress.domain.asset import AssetState
from vodpress.domain.deadletter import Decider, Resolution
from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import Failure, FailureKind
from vodpress.domain.job import Claim, Discard, Done, JobKind, JobRequest, Outcome
from vodpress.domain.keys import plan_prefix, rendition_key
from vodpress.domain.ladder import Ladder
from vodpress.domain.media import Probe
from vodpress.domain.plan import Plan, fingerprint, make_plan
from vodpress.domain.publication import ALL, PublishPolicy, early_rung
from vodpress.domain.rendition import PlanState, RenditionState, SliceState
from vodpress.ports import AssetRecord, DeadLetterRecord, NewPlan, NewRendition, StoredOutput, Transaction
from vodpress.stages import encode, package, stitch, thumbnails
from vodpress.stages.services import Services, Stage

_SUBMITTED_AGAIN = Decider("submission", "the same file was submitted again")


class Args(BaseModel):
    """Which asset, the ladder as its owner chose it, when it may be shown, and whether others may overtake it."""

    model_config = ConfigDict(frozen=True)
    asset_id: str
    ladder: Ladder
    publish: str = ALL.text
    bulk: bool = False


def request(args: Args) -> JobRequest:
    """The job that ingests an asset."""
    digest = hashlib.sha256(args.model_dump_json().encode()).hexdigest()[:16]
    return JobRequest(JobKind.INGEST, args.model_dump(mode="json"), unique_key=f"ingest:{args.asset_id}:{digest}")


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
        is_new = await transaction.plans.by_hash(asset, plan_hash) is None
    if is_new:
        services.require_disk(plan.most_bytes)
    copies = await _copy_known_renditions(asset, plan, plan_hash, services) if is_new else {}
    async with services.work.begin() as transaction:
        await transaction.jobs.complete(claim)  # first: whoever locks both locks the job before the asset
        now = await transaction.assets.get(asset.id, lock=True)
        if now is None or now.source_sha256 != asset.source_sha256:
            return Done()  # deleted, or made of another source meanwhile
        if asset.probe is None:
            await transaction.assets.set_probe(asset.id, probe)
        await _fan_out(transaction, asset, args, plan, plan_hash, copies, services)
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
    args: Args,
    plan: Plan,
    plan_hash: str,
    copies: dict[str, StoredOutput],
    services: Services,
) -> None:
    if asset.source_sha256 is None or asset.source_key is None:
        raise Failure("internal_error", f"Asset {asset.id} is planned and has no source.")
    policy = PublishPolicy(args.publish)
    new = NewPlan(
        asset_id=asset.id,
        plan_hash=plan_hash,
        source_sha256=asset.source_sha256,
        source_key=asset.source_key,
        ladder=args.ladder,
        plan=plan,
        publish=policy,
        early_rung=early_rung(policy, plan),
        bulk=args.bulk,
        renditions=_new_renditions(plan, services),
    )
    plan_id = await transaction.plans.add(new)
    if plan_id is not None:
        for rendition in await transaction.plans.renditions(plan_id):
            if rendition.name in copies:
                await package.record_rendition(transaction, rendition, copies[rendition.name])
    record = await transaction.plans.by_hash(asset, plan_hash, lock=True)
    if record is None:
        raise Failure("internal_error", f"The plan {plan_hash[:16]} of asset {asset.id} vanished while locked.")
    if record.publish != policy:
        await transaction.plans.set_publish(record.id, policy)
    if record.state is PlanState.FAILED or any(
        rendition.state is RenditionState.FAILED for rendition in await transaction.plans.renditions(record.id)
    ):
        await transaction.plans.reopen(record.id)
    await resolve_by_retry(transaction, asset.id, plan_id=record.id)
    await enqueue_missing(transaction, record.id)


async def resolve_by_retry(transaction: Transaction, asset_id: str, *, plan_id: int | None) -> None:
    """Take back what was given up for a plan, or before there was one: its work is asked for again."""
    for letter in await transaction.dead_letters.open_of(asset_id):
        if letter.plan_id == plan_id:
            await resolve(transaction, letter, Resolution.RETRY, _SUBMITTED_AGAIN)


async def resolve(transaction: Transaction, letter: DeadLetterRecord, resolution: Resolution, decider: Decider) -> None:
    """Record what was decided about a dead letter, and tell it to others; what follows from it is the caller's."""
    if await transaction.dead_letters.decide(letter.id, resolution, who=decider.who, why=decider.why):
        data = {"dead_letter": letter.id, "resolution": resolution, "who": decider.who, "why": decider.why}
        await transaction.emit(Event(EventType.DEAD_LETTER_RESOLVED, letter.asset_id, data))


async def enqueue_missing(transaction: Transaction, plan_id: int) -> int:
    """Enqueue every job that the rows of a plan still call for and that neither waits nor runs; returns how many."""
    record = await transaction.plans.get(plan_id, lock=True)
    if record is None:
        return 0
    jobs: list[JobRequest] = []
    open_slices: set[tuple[bool, str, int]] = set()
    for rendition in await transaction.plans.renditions(record.id):
        if rendition.state is RenditionState.STITCHING:
            jobs.append(stitch.request(record, rendition.name))
        elif rendition.state in {RenditionState.PENDING, RenditionState.ENCODING}:
            slices = await transaction.plans.slices(rendition.id)
            late = rendition.name != record.early_rung
            open_slices |= {
                (late, rendition.kind, part.index) for part in slices if part.state is not SliceState.COMPLETED
            }
    jobs += [
        encode.request(record, kind=kind, index=index, early=not late) for late, kind, index in sorted(open_slices)
    ]
    if record.images_state != "completed":
        jobs.append(thumbnails.request(record))
    added = await transaction.jobs.enqueue(*jobs)
    return added + await package.ask_for_version(transaction, record.id)
