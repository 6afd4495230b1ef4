"""What a person decides, in the caller's transaction.

About a dead letter: retry, waive, fail, replace the source. About a published asset: go back to an earlier version.
"""

from __future__ import annotations

from collections.abc import Sequence

from vodpress.domain.asset import AssetState
from vodpress.domain.deadletter import Decider, Resolution
from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import CODES, Failure, InvalidRequest
from vodpress.domain.job import JobKind
from vodpress.domain.ladder import Ladder
from vodpress.domain.publication import must_have
from vodpress.domain.rendition import PlanState, RenditionState, SliceState
from vodpress.ports import AssetRecord, DeadLetterRecord, RenditionRecord, Transaction
from vodpress.stages import encode, ingest, package, stitch, upload


async def retry(transaction: Transaction, letter_id: int, decider: Decider) -> DeadLetterRecord:
    """Try again; only what is missing is repeated.

    Raises:
        InvalidRequest: `unknown_dead_letter`.
    """
    letter = await _open_letter(transaction, letter_id)
    if letter.plan_id is None:
        if await transaction.assets.move(letter.asset_id, AssetState.PROCESSING):
            await transaction.emit(Event(EventType.ASSET_PROCESSING, letter.asset_id, {"retry_of": letter.id}))
        await transaction.jobs.enqueue(ingest.request(ingest.Args.model_validate(letter.job_args)))
        await ingest.resolve(transaction, letter, Resolution.RETRY, decider)
        return letter
    names = [rendition.name for rendition in await _failed_by(transaction, letter)]
    await transaction.plans.reopen(letter.plan_id, names=names)
    await _resolve_with_others(transaction, letter, Resolution.RETRY, decider)
    await ingest.enqueue_missing(transaction, letter.plan_id)
    return letter


async def waive(transaction: Transaction, letter_id: int, decider: Decider) -> DeadLetterRecord:
    """Go on without what was given up: the next version says that it lacks it, and the gap is closed.

    Raises:
        InvalidRequest: `unknown_dead_letter`; `not_waivable` when the publish policy never lets the video be shown
            without it.
    """
    letter = await _open_letter(transaction, letter_id)
    if letter.job_kind == JobKind.THUMBNAILS:
        await ingest.resolve(transaction, letter, Resolution.WAIVE, decider)
        return letter
    failed = await _failed_by(transaction, letter)
    plan = await transaction.plans.get(letter.plan_id, lock=True) if letter.plan_id is not None else None
    if plan is None or not failed:
        raise InvalidRequest(
            "not_waivable",
            f"Dead letter {letter.id} is about {letter.job_kind}: there is no video without it. "
            "Retry it, fail the asset, or replace its source.",
        )
    needed = sorted({rendition.name for rendition in failed} & must_have(plan.publish, plan.plan))
    if needed:
        raise InvalidRequest(
            "not_waivable",
            f"The publish policy '{plan.publish.text}' never shows this video without {', '.join(needed)}. "
            "Retry it, fail the asset, or process it again with a policy that can do without.",
        )
    for rendition in failed:
        await transaction.plans.waive_rendition(rendition.id)
    await _resolve_with_others(transaction, letter, Resolution.WAIVE, decider)
    await package.ask_for_version(transaction, plan.id)
    return letter


async def fail(transaction: Transaction, letter_id: int, decider: Decider) -> DeadLetterRecord:
    """Give the plan up, and with it an asset that was never shown. What is live stays live.

    Raises:
        InvalidRequest: `unknown_dead_letter`.
    """
    known = await transaction.dead_letters.get(letter_id)
    asset = await transaction.assets.get(known.asset_id) if known is not None else None
    if known is None or asset is None:
        raise _unknown(letter_id)
    if asset.state is AssetState.READY and known.plan_id is None:
        letter = await _open_letter(transaction, letter_id)  # there is no plan yet that could be given up
        await ingest.resolve(transaction, letter, Resolution.FAIL, decider)
        return letter
    only_plan = known.plan_id if asset.state is AssetState.READY else None
    # Jobs before the asset, as everywhere: whoever locks both does so in this order.
    await transaction.jobs.cancel_of_asset(asset.id, plan_id=only_plan)
    letter = await _open_letter(transaction, letter_id)
    reason = Failure(letter.code, letter.message) if letter.code in CODES else Failure("internal_error", letter.message)
    await _abandon_plans(transaction, asset, only_plan)
    if await transaction.assets.move(asset.id, AssetState.ERRORED, reason=reason):
        data = {"code": letter.code, "message": letter.message, "who": decider.who, "why": decider.why}
        await transaction.emit(Event(EventType.ASSET_ERRORED, asset.id, data))
    for other in await transaction.dead_letters.open_of(asset.id):
        if only_plan is None or other.plan_id == only_plan:
            await ingest.resolve(transaction, other, Resolution.FAIL, decider)
    return letter


async def replace_source(
    transaction: Transaction, letter_id: int, received: upload.Received, decider: Decider, *, ladder: Ladder
) -> DeadLetterRecord:
    """Go on with another source: all open work of the asset is dropped, and it is ingested anew.

    What is live stays live until a version of the new source takes its place.

    Args:
        ladder: for a plan of an older release, which did not keep its own.

    Raises:
        InvalidRequest: `unknown_dead_letter`; `source_taken` when another asset is made from these bytes.
    """
    known = await transaction.dead_letters.get(letter_id)
    asset = await transaction.assets.get(known.asset_id) if known is not None else None
    if known is None or asset is None:
        raise _unknown(letter_id)
    await transaction.jobs.cancel_of_asset(asset.id)
    letter = await _open_letter(transaction, letter_id)
    plan = await transaction.plans.get(letter.plan_id) if letter.plan_id is not None else None
    if not await transaction.assets.replace_source(
        asset.id, sha256=received.sha256, size=received.bytes, key=received.key
    ):
        raise InvalidRequest(
            "source_taken", f"Another asset with the passthrough '{asset.passthrough}' is made from this file."
        )
    await _abandon_plans(transaction, asset, None)
    if await transaction.assets.move(asset.id, AssetState.PROCESSING):
        await transaction.emit(Event(EventType.ASSET_PROCESSING, asset.id, {"passthrough": asset.passthrough}))
    data = {"sha256": received.sha256, "bytes": received.bytes, "passthrough": asset.passthrough}
    await transaction.emit(Event(EventType.UPLOAD_COMPLETED, asset.id, data))
    for other in await transaction.dead_letters.open_of(asset.id):
        await ingest.resolve(transaction, other, Resolution.REPLACE_SOURCE, decider)
    if plan is None:
        args = ingest.Args.model_validate(letter.job_args)
    else:
        args = ingest.Args(asset_id=asset.id, ladder=plan.ladder or ladder, publish=plan.publish.text, bulk=plan.bulk)
    await transaction.jobs.enqueue(ingest.request(args))
    return letter


async def roll_back(transaction: Transaction, asset_id: str, decider: Decider, *, version: int | None = None) -> int:
    """Make an earlier version the live one, at once; returns its number.

    Versions that come later of the plans there are do not take its place, those of a plan made after it do. Going to
    the newest version ends that.

    Args:
        version: the one before the live one, where none is named.

    Raises:
        InvalidRequest: `no_such_version`.
    """
    asset = await transaction.assets.get(asset_id, lock=True)
    live = asset.live_version if asset is not None and asset.state is AssetState.READY else None
    versions = [record.version for record in await transaction.manifests.of_asset(asset_id)]
    earlier = [number for number in versions if live is not None and number < live]
    wanted = version if version is not None else (earlier[-1] if earlier else None)
    if live is None or wanted not in versions:
        known = ", ".join(str(number) for number in versions) or "none"
        raise InvalidRequest(
            "no_such_version",
            f"Asset {asset_id} has no {'earlier version' if version is None else f'version {version}'} to go to; "
            f"published versions: {known}.",
        )
    await transaction.assets.hold_version(asset_id, wanted, hold=wanted != versions[-1])
    data = {"version": wanted, "from_version": live, "who": decider.who, "why": decider.why}
    await transaction.emit(Event(EventType.ASSET_ROLLED_BACK, asset_id, data))
    return wanted


async def _open_letter(transaction: Transaction, letter_id: int) -> DeadLetterRecord:
    """The letter, locked together with its asset, so that one decision at a time is taken about an asset."""
    known = await transaction.dead_letters.get(letter_id)
    if known is None or await transaction.assets.get(known.asset_id, lock=True) is None:
        raise _unknown(letter_id)
    letter = await transaction.dead_letters.get(letter_id, lock=True)
    if letter is None or letter.resolution is not None:
        raise _unknown(letter_id)
    return letter


def _unknown(letter_id: int) -> InvalidRequest:
    return InvalidRequest(
        "unknown_dead_letter", f"There is no undecided dead letter {letter_id}; see `vodpress dead-letter list`."
    )


async def _failed_by(transaction: Transaction, letter: DeadLetterRecord) -> Sequence[RenditionRecord]:
    """The failed renditions that lack what the letter's job should have made."""
    if letter.plan_id is None:
        return []
    failed = [
        rendition
        for rendition in await transaction.plans.renditions(letter.plan_id)
        if rendition.state is RenditionState.FAILED
    ]
    if letter.job_kind == JobKind.STITCH:
        wanted = stitch.Args.model_validate(letter.job_args).rendition
        return [rendition for rendition in failed if rendition.name == wanted]
    if letter.job_kind != JobKind.ENCODE:
        return []
    args = encode.Args.model_validate(letter.job_args)
    plan = await transaction.plans.get(letter.plan_id)
    found = []
    for rendition in failed:
        part = (await transaction.plans.slices(rendition.id))[args.index]
        if plan is not None and args.covers(rendition, plan) and part.state is not SliceState.COMPLETED:
            found.append(rendition)
    return found


async def _resolve_with_others(
    transaction: Transaction, letter: DeadLetterRecord, resolution: Resolution, decider: Decider
) -> None:
    """Resolve the letter, and those of its plan whose renditions are, by this decision, no longer failed."""
    await ingest.resolve(transaction, letter, resolution, decider)
    for other in await transaction.dead_letters.open_of(letter.asset_id):
        of_renditions = other.job_kind in {JobKind.ENCODE, JobKind.STITCH}
        if other.plan_id == letter.plan_id and of_renditions and not await _failed_by(transaction, other):
            await ingest.resolve(transaction, other, resolution, decider)


async def _abandon_plans(transaction: Transaction, asset: AssetRecord, only_plan: int | None) -> None:
    for plan in await transaction.plans.of_asset(asset.id):
        if only_plan in {None, plan.id}:
            await transaction.plans.move(plan.id, PlanState.FAILED)
