"""One run over files: submit each, work on the queue in this process until it is settled, and export the result."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vodpress.adapters.process import cpu_meter
from vodpress.bootstrap import Platform
from vodpress.domain.asset import AssetState
from vodpress.domain.failure import CODES, ExitCode, Failure, InvalidRequest, worst
from vodpress.domain.job import Claim, JobKind
from vodpress.domain.ladder import Ladder
from vodpress.domain.plan import make_plan
from vodpress.domain.publication import ALL, PublishPolicy
from vodpress.export import as_text, export
from vodpress.overview import AssetOverview, PlanOverview, look_at
from vodpress.ports import DeadLetterRecord
from vodpress.stages import ingest, upload

_LOOK_EVERY_SECONDS = 1.0
_FILES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller wants made of the files."""

    ladder: Ladder
    passthrough: str
    out: Path
    publish: PublishPolicy = ALL
    bulk: bool = False


@dataclass(slots=True)
class FileRun:
    """One file on its way through, as a progress display sees it."""

    path: Path
    begun: float
    phase: str = "waiting"
    asset_id: str | None = None
    overview: AssetOverview | None = None
    plan_hash: str | None = None
    began_at: str = ""
    ended: float | None = None
    encoded_slices: int = 0
    cpu_seconds: float = 0.0
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def plan(self) -> PlanOverview | None:
        """The plan that this run works on, once ingest made it."""
        return self.overview.plan(self.plan_hash) if self.overview and self.plan_hash else None


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file. `document` is the JSON object that `vodpress process --json` prints for it."""

    path: Path
    exit_code: ExitCode
    document: Mapping[str, Any]


class Processing:
    """A run over files on an open platform.

    Args:
        on_change: called when a file moved on, with all that are on their way.
    """

    def __init__(self, platform: Platform, wishes: Wishes, *, on_change: Callable[[Sequence[FileRun]], None]) -> None:
        self._platform = platform
        self._wishes = wishes
        self._on_change = on_change
        self._runs: list[FileRun] = []
        self._cpu_seconds: dict[str, float] = defaultdict(float)
        self._turns = asyncio.Semaphore(_FILES_AT_ONCE)

    async def run(self, files: Sequence[Path], stop: asyncio.Event) -> list[FileResult]:
        """Bring every file to its end, or until `stop` is set, as far as it came. One bad file stops no other."""
        self._runs = [FileRun(path=path, begun=time.monotonic()) for path in files]
        enough = asyncio.Event()
        working = asyncio.ensure_future(self._platform.work_on_jobs(enough, execute=self._execute))
        stopped = asyncio.ensure_future(stop.wait())
        tasks = [asyncio.ensure_future(self._file(run)) for run in self._runs]
        try:
            every = asyncio.gather(*tasks, return_exceptions=True)
            waited: list[asyncio.Future[Any]] = [every, working, stopped]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if working.done() and not stopped.done():
                working.result()  # workers end by themselves only by failing
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            enough.set()
            await asyncio.gather(working, return_exceptions=True)
            stopped.cancel()
        for run in self._runs:
            run.cpu_seconds = self._cpu_seconds[run.asset_id or ""]
        own_cpu = time.process_time() / max(1, len(files))
        return [_result(run, outcome, own_cpu=own_cpu) for run, outcome in zip(self._runs, results, strict=True)]

    async def _execute(self, kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        """Run a job, and count what it takes for its asset: work left from an earlier run may begin before its file."""
        asset_id = str(args.get("asset_id"))

        def count(seconds: float) -> None:
            self._cpu_seconds[asset_id] += seconds

        token = cpu_meter.set(count)
        try:
            await self._platform.executor.run(kind, claim, args)
        finally:
            cpu_meter.reset(token)
            for run in self._runs:
                if run.asset_id == asset_id:
                    run.moved.set()

    async def _file(self, run: FileRun) -> Path | None:
        """Submit, follow and export one file. Returns the manifest's path, or `None` when none was made."""
        async with self._turns:
            try:
                require_readable(run.path)
                await self._submit(run)
                await self._follow(run)
                return await self._export(run)
            finally:
                run.ended = time.monotonic()

    async def _submit(self, run: FileRun) -> None:
        self._change(run, "reading the file")
        services, settings = self._platform.services, self._platform.settings
        services.require_disk(run.path.stat().st_size)
        received = await upload.receive_file(
            run.path, upload_id=uuid.uuid4().hex, tenant=settings.tenant, services=services
        )
        async with services.work.begin() as transaction:
            run.began_at = await transaction.moment()
        submission = upload.Submission(
            tenant=settings.tenant,
            title=as_text(run.path.name),
            passthrough=self._wishes.passthrough,
            ladder=self._wishes.ladder,
            publish=self._wishes.publish,
            bulk=self._wishes.bulk,
        )
        run.asset_id = await upload.finish(received, submission, asset_id=uuid.uuid4().hex, services=services)
        self._change(run, "waiting for a worker")

    async def _follow(self, run: FileRun) -> None:
        """Wait until no job of the asset is left, or what is left waits for something that is not there yet."""
        while True:
            run.moved.clear()
            await self._look(run)
            overview = run.overview
            if overview is None:
                raise Failure("asset_deleted", f"The asset {run.asset_id} was deleted while it was processed.")
            jobs = overview.jobs
            if jobs.total == 0:
                return
            if jobs.running == jobs.waiting == 0 and jobs.last_failure_kind == "not_yet":
                if any(letter.job_kind != JobKind.THUMBNAILS for letter in overview.dead_letters):
                    return  # what was given up is the graver news
                raise Failure(jobs.last_failure_code or "dependency_pending", jobs.last_failure_message)
            try:
                await asyncio.wait_for(run.moved.wait(), timeout=_LOOK_EVERY_SECONDS)
            except TimeoutError:
                continue

    async def _export(self, run: FileRun) -> Path | None:
        plan = run.plan
        if plan is None or plan.manifest is None:
            return None
        self._change(run, "copying the result")
        async with self._platform.work.begin() as transaction:
            run.encoded_slices = await transaction.plans.slices_since(plan.record.id, run.began_at)
        store = self._platform.services.store
        manifest = await export(plan.manifest, store=store, out=self._wishes.out, stem=run.path.stem)
        self._change(run, "done")
        return manifest

    async def _look(self, run: FileRun) -> None:
        async with self._platform.work.begin() as transaction:
            run.overview = await look_at(transaction, run.asset_id or "")
        if run.plan_hash is None and run.overview is not None and run.overview.asset.probe is not None:
            plan = make_plan(run.overview.asset.probe, self._wishes.ladder)
            run.plan_hash = ingest.hash_plan(plan, self._platform.services)
        self._change(run, _phase(run))

    def _change(self, run: FileRun, phase: str) -> None:
        run.phase = phase
        self._on_change(self._runs)


def require_readable(path: Path) -> None:
    """Raise `InvalidRequest` with a code and a sentence when `path` is no file that can be read."""
    try:
        if path.is_dir():
            raise InvalidRequest("file_is_directory", f"{path} is a directory; name the files in it.")
        if not path.exists():
            raise InvalidRequest("file_not_found", f"There is no file {path}.")
        if not path.is_file():
            raise InvalidRequest("file_not_regular", f"{path} is no regular file.")
        with path.open("rb"):
            pass
    except OSError as error:
        raise InvalidRequest("file_unreadable", f"{path} cannot be read: {error.strerror}.") from error


def _phase(run: FileRun) -> str:
    overview, plan = run.overview, run.plan
    if overview is None or plan is None:
        return "looking into the file"
    if plan.manifest is not None:
        return "published"
    if plan.progress.packaging:
        return "packaging"
    return "encoding" if overview.jobs.running else "waiting for a worker"


def _verdict(
    run: FileRun, manifest: Path | None, error: BaseException | None
) -> tuple[ExitCode, str | None, str | None]:
    """Exit status, reason code and sentence for one file."""
    match error:
        case InvalidRequest() | Failure():
            return ExitCode(error.exit_code), error.code, error.message
        case asyncio.CancelledError():
            return ExitCode.INTERRUPTED, "interrupted", "Interrupted; run it again to go on from what is finished."
        case BaseException():
            return ExitCode.INFRASTRUCTURE, "internal_error", f"{type(error).__name__}: {error}"
    overview = run.overview
    if overview is not None and overview.asset.state is AssetState.ERRORED and overview.asset.reason_code:
        code = overview.asset.reason_code
        return CODES[code].exit_code, code, overview.asset.reason_message
    plans = {None, run.plan.record.id} if run.plan else {None}
    letters = [letter for letter in overview.dead_letters if letter.plan_id in plans] if overview else []
    if letters:
        codes = {letter.id: _exit_of(letter) for letter in letters}
        gravest = worst(codes.values()) if manifest is None else ExitCode.WAITS_FOR_DECISION
        letter = next((letter for letter in letters if codes[letter.id] is gravest), letters[0])
        return gravest, letter.code, letter.message
    if manifest is None:
        return ExitCode.INFRASTRUCTURE, "internal_error", "No job is left and there is no manifest."
    return ExitCode.DONE, None, None


def _exit_of(letter: DeadLetterRecord) -> ExitCode:
    """Missing images hold up nothing; they only wait for a decision."""
    if letter.job_kind == JobKind.THUMBNAILS:
        return ExitCode.WAITS_FOR_DECISION
    return CODES[letter.code].exit_code


def refused(path: Path, error: InvalidRequest | Failure) -> FileResult:
    """The result for a file when the run could not even begin."""
    run = FileRun(path=path, begun=time.monotonic())
    return _result(run, error, own_cpu=0.0)


def _result(run: FileRun, outcome: Path | BaseException | None, *, own_cpu: float) -> FileResult:
    manifest = outcome if isinstance(outcome, Path) else None
    error = outcome if isinstance(outcome, BaseException) else None
    exit_code, code, message = _verdict(run, manifest, error)
    plan = run.plan
    sizes = {rung.name: rung for rung in plan.record.plan.rungs} if plan else {}
    document = {
        "file": str(run.path),
        "asset": run.asset_id,
        "state": run.overview.asset.state if run.overview else "rejected",
        "exit_code": int(exit_code),
        "reason": {"code": code, "message": message} if code else None,
        "manifest": str(manifest.absolute()) if manifest else None,
        "duration_seconds": float(round(plan.record.plan.duration_seconds, 6)) if plan else None,
        "renditions": [
            {
                "name": rendition.name,
                "width": sizes[rendition.name].width if rendition.name in sizes else None,
                "height": sizes[rendition.name].height if rendition.name in sizes else None,
                "state": rendition.state,
            }
            for rendition in (plan.renditions if plan else ())
        ],
        "cpu_seconds": round(run.cpu_seconds + own_cpu, 3),
        "wall_seconds": round((run.ended or time.monotonic()) - run.begun, 3),
        "reused": manifest is not None and run.encoded_slices == 0,
    }
    return FileResult(path=run.path, exit_code=exit_code, document=document)
