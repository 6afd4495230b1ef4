"""Runs one claimed job: parse, handle, settle. Every failure is classified and decided here, and nowhere else."""

from __future__ import annotations

import asyncio
import errno
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from pydantic import BaseModel

from vodpress.domain.asset import AssetState
from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import Failure, FailureKind, LeaseLost
from vodpress.domain.job import Claim, Discard, Done, JobKind, Outcome, Snooze
from vodpress.domain.keys import asset_prefix
from vodpress.domain.retry import Bury, Schedule, TryAgain, WaitFor, decide
from vodpress.ports import Transaction
from vodpress.stages import encode, ingest, package, stitch, thumbnails
from vodpress.stages.services import Services, Stage, delete_below

STAGES: Mapping[JobKind, Stage] = {
    stage.kind: stage for stage in (ingest.STAGE, encode.STAGE, stitch.STAGE, thumbnails.STAGE, package.STAGE)
}

_DEADLINE_SECONDS = 6 * 3600.0
_OS_REFUSALS = {errno.ENOSPC: "disk_full", errno.EDQUOT: "disk_full", errno.ENOMEM: "out_of_memory"}

_log = structlog.get_logger(__name__)


class Executor:
    """The pipeline of steps around a stage's handler.

    Args:
        schedules: how each kind of job is retried.
        chance: gives numbers in [0, 1) to spread retries.
        on_end: told of every job that was done (`None`) or failed, with its kind and asset.
        deadline_seconds: how long one attempt of a job may take, whatever it waits for.
    """

    def __init__(
        self,
        services: Services,
        schedules: Mapping[JobKind, Schedule],
        *,
        chance: Callable[[], float],
        on_end: Callable[[str, str, Failure | None], Awaitable[None]] | None = None,
        deadline_seconds: float = _DEADLINE_SECONDS,
    ) -> None:
        self._services = services
        self._deadline_seconds = deadline_seconds
        self._schedules = schedules
        self._chance = chance
        self._on_end = on_end

    async def run(self, kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        """Run a job to its settlement. Cancellation passes through: the runner hands the job back.

        Raises:
            Failure: `database_unavailable` when not even the failure could be recorded; the job is rescued later.
        """
        stage = STAGES[JobKind(kind)]
        with structlog.contextvars.bound_contextvars(
            asset=args.get("asset_id"), job=claim.job_id, kind=kind, attempt=claim.attempt
        ):
            try:
                await self._run(stage, stage.args.model_validate(dict(args)), claim)
            except LeaseLost as lost:
                _log.warning("result discarded, the job was taken away", reason=str(lost))
                await self._clear_if_deleted(str(args["asset_id"]))
            except asyncio.CancelledError:
                await asyncio.shield(asyncio.ensure_future(self._clear_if_deleted(str(args["asset_id"]))))
                raise

    async def run_out(self, kind: str, claim: Claim, args: Mapping[str, Any], transaction: Transaction) -> None:
        """Give up on a job whose workers died on every attempt, inside the rescuer's transaction."""
        stage = STAGES[JobKind(kind)]
        failure = Failure(
            "worker_died", f"Every worker that took this {kind} job died; {claim.attempt} attempts were made."
        )
        await self._give_up(stage, stage.args.model_validate(dict(args)), args, claim, failure, "", transaction)

    async def _run(self, stage: Stage, args: BaseModel, claim: Claim) -> None:
        try:
            outcome = await self._handle(stage, args, claim)
            await self._settle(outcome, claim)
            if isinstance(outcome, Done) and self._on_end is not None:
                await self._on_end(stage.kind, str(args.model_dump()["asset_id"]), None)
        except LeaseLost:
            raise
        except Failure as failure:
            await self._failed(stage, args, claim, failure, traceback.format_exc())
        except Exception as error:  # noqa: BLE001 - a defect of ours must end in a record, not in a dead worker
            await self._failed(stage, args, claim, _as_failure(error), traceback.format_exc())

    async def _handle(self, stage: Stage, args: BaseModel, claim: Claim) -> Outcome:
        """Run the handler, which has until the deadline: what hangs would else be held under a lease for ever."""
        try:
            async with asyncio.timeout(self._deadline_seconds) as deadline:
                return await stage.handle(args, claim, self._services)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise Failure(
                "job_overdue", f"The {stage.kind} job was ended after {self._deadline_seconds:.0f} s."
            ) from error

    async def _settle(self, outcome: Outcome, claim: Claim) -> None:
        match outcome:
            case Done():
                return  # the handler's last transaction settled it
            case Snooze(seconds=seconds, reason=reason):
                _log.info("job waits", seconds=seconds, reason=reason)
                async with self._services.work.begin() as transaction:
                    await transaction.jobs.snooze(claim, seconds)
            case Discard(reason=reason):
                _log.info("job discarded", reason=reason)
                async with self._services.work.begin() as transaction:
                    await transaction.jobs.discard(claim)

    async def _failed(self, stage: Stage, args: BaseModel, claim: Claim, failure: Failure, traceback_text: str) -> None:
        decision = decide(failure, attempt=claim.attempt, schedule=self._schedules[stage.kind], chance=self._chance())
        _log.warning(
            "job failed", code=failure.code, message=failure.message, detail=failure.detail, decision=str(decision)
        )
        if self._on_end is not None:
            await self._on_end(stage.kind, str(args.model_dump()["asset_id"]), failure)
        async with self._services.work.begin() as transaction:
            await transaction.jobs.record_failure(claim, failure, traceback_text)
            await transaction.plans.release_slices(claim)
            match decision:
                case WaitFor(delay_seconds=delay):
                    await transaction.jobs.snooze(claim, delay)
                case TryAgain(delay_seconds=delay):
                    await transaction.jobs.retry(claim, delay)
                case Bury():
                    await transaction.jobs.bury(claim)
                    document = args.model_dump(mode="json")
                    await self._give_up(stage, args, document, claim, failure, traceback_text, transaction)

    async def _clear_if_deleted(self, asset_id: str) -> None:
        """Remove what this job stored while its asset was being deleted: whoever deleted it may not have seen that."""
        try:
            async with self._services.work.begin() as transaction:
                if await transaction.assets.get(asset_id) is not None:
                    return
            await delete_below(asset_prefix(asset_id), self._services.store)
        except Failure as failure:
            _log.warning("objects of a deleted asset may be left", asset=asset_id, code=failure.code)

    async def _give_up(
        self,
        stage: Stage,
        args: BaseModel,
        document: Mapping[str, Any],
        claim: Claim,
        failure: Failure,
        traceback_text: str,
        transaction: Transaction,
    ) -> None:
        asset_id = str(document["asset_id"])
        asset = await transaction.assets.get(asset_id, lock=True)
        if asset is None:
            return  # deleted meanwhile: there is nothing left to decide
        await stage.give_up(args, failure, transaction)
        letter = await transaction.dead_letters.add(
            asset_id=asset_id,
            kind=stage.kind,
            args=document,
            failure=failure,
            traceback=traceback_text,
            attempts=claim.attempt,
        )
        data = {"dead_letter": letter.id, "kind": failure.kind, "code": failure.code, "message": failure.message}
        await transaction.emit(Event(EventType.DEAD_LETTER_CREATED, asset_id, data))
        is_verdict = stage.kind is JobKind.INGEST and failure.kind is FailureKind.CONTENT
        if asset.state is AssetState.PROCESSING and stage.kind is not JobKind.THUMBNAILS and not is_verdict:
            await transaction.emit(Event(EventType.ASSET_BLOCKED, asset_id, data))


def _as_failure(error: Exception) -> Failure:
    if isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        return _as_failure(error.exceptions[0])
    if isinstance(error, Failure):
        return error
    if isinstance(error, OSError) and error.errno in _OS_REFUSALS:
        return Failure(_OS_REFUSALS[error.errno], f"{error.strerror}: {error.filename}" if error.filename else None)
    return Failure("internal_error", f"{type(error).__name__}: {error}")
