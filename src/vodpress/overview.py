"""What can be said about an asset right now: where it stands, why it is not ready, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vodpress.domain.asset import AssetState
from vodpress.domain.failure import CODES
from vodpress.domain.progress import AssetProgress
from vodpress.domain.rendition import PlanState
from vodpress.ports import (
    AssetRecord,
    DeadLetterRecord,
    LiveJobs,
    ManifestRecord,
    PlanRecord,
    RenditionRecord,
    Transaction,
)


@dataclass(frozen=True, slots=True)
class PlanOverview:
    """One plan with its renditions, how far they are, and the newest version made from it."""

    record: PlanRecord
    renditions: Sequence[RenditionRecord]
    progress: AssetProgress
    manifest: ManifestRecord | None


@dataclass(frozen=True, slots=True)
class AssetOverview:
    """An asset with all that decides about it."""

    asset: AssetRecord
    plans: Sequence[PlanOverview]
    dead_letters: Sequence[DeadLetterRecord]
    jobs: LiveJobs

    @property
    def blocked(self) -> bool:
        """Whether the asset is unfinished and waits for a person's decision."""
        return bool(self.dead_letters) and self.asset.state is AssetState.PROCESSING

    def plan(self, plan_hash: str) -> PlanOverview | None:
        """The plan with this hash for the source that the asset has now."""
        wanted = (plan_hash, self.asset.source_sha256)
        return next((p for p in self.plans if (p.record.plan_hash, p.record.source_sha256) == wanted), None)


async def look_at(transaction: Transaction, asset_id: str) -> AssetOverview | None:
    """Everything about one asset; `None` when there is no such asset."""
    # First: no job of it is left then, so whatever the last one recorded is seen by the statements that follow.
    jobs = await transaction.jobs.live_of_asset(asset_id)
    asset = await transaction.assets.get(asset_id)
    if asset is None:
        return None
    plans = [
        PlanOverview(
            record=record,
            renditions=await transaction.plans.renditions(record.id),
            progress=await transaction.plans.progress(record.id),
            manifest=await transaction.manifests.of_plan(record.id),
        )
        for record in await transaction.plans.of_asset(asset_id)
    ]
    return AssetOverview(
        asset=asset,
        plans=plans,
        dead_letters=await transaction.dead_letters.open_of(asset_id),
        jobs=jobs,
    )


def explain(overview: AssetOverview) -> list[str]:
    """Why the asset is not ready, and what to do, in sentences."""
    asset = overview.asset
    lines = [_headline(overview)]
    for letter in overview.dead_letters:
        lines += [
            f"{letter.job_kind} was given up after {letter.attempts} attempt(s): {letter.message} ({letter.code})",
            f"What to do: {CODES[letter.code].remedy} Then `vodpress dead-letter retry {letter.id}`, or process the "
            "file again; only what is missing is repeated.",
        ]
    if asset.state is AssetState.PROCESSING and not overview.dead_letters:
        lines += _work_left(overview)
    for plan in overview.plans:
        if plan.record.state is not PlanState.PUBLISHED:
            done = sum(rendition.state == "completed" for rendition in plan.renditions)
            lines.append(
                f"Plan {plan.record.plan_hash[:16]} ({plan.record.ladder_name}): {plan.record.state}, "
                f"{done} of {len(plan.renditions)} renditions, {plan.progress.fraction:.0%} encoded."
            )
    return lines


def _headline(overview: AssetOverview) -> str:
    asset = overview.asset
    match asset.state:
        case AssetState.READY:
            return f"Asset {asset.id} is ready; version {asset.live_version} is live."
        case AssetState.ERRORED:
            remedy = CODES[asset.reason_code].remedy if asset.reason_code in CODES else ""
            return f"Asset {asset.id} is errored: {asset.reason_message} ({asset.reason_code}) {remedy}".rstrip()
        case AssetState.PROCESSING if overview.dead_letters:
            return f"Asset {asset.id} is blocked: it waits for a decision."
        case AssetState.PROCESSING:
            return f"Asset {asset.id} is being processed."
        case _:
            return f"Asset {asset.id} has no complete source yet ({asset.state})."


def _work_left(overview: AssetOverview) -> list[str]:
    jobs = overview.jobs
    if jobs.total == 0:
        return ["No job works on it. What to do: process the file again; only what is missing is repeated."]
    lines = [f"Jobs: {jobs.running} run, {jobs.waiting} wait for a worker, {jobs.delayed} wait for their next attempt."]
    if jobs.last_failure_code:
        lines.append(f"The last failure was {jobs.last_failure_code}: {jobs.last_failure_message}")
    if jobs.running == 0 and jobs.waiting:
        lines.append("What to do: see that a worker runs; `vodpress process` works on waiting jobs, too.")
    return lines
