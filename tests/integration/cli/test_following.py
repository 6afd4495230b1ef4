"""How a run sees that its file is done, while the last job of it is being settled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from vodpress.adapters.db.records import PostgresManifests
from vodpress.adapters.db.session import Session
from vodpress.bootstrap import open_platform
from vodpress.domain.job import Claim, JobKind
from vodpress.ladder_files import load_ladder
from vodpress.overview import look_at
from vodpress.ports import ManifestRecord
from vodpress.settings import Settings
from vodpress.stages import upload


class InterruptedManifests(PostgresManifests):
    """Manifests for a reader to whom something happens just after it has looked for one."""

    def __init__(self, session: Session, happens: Callable[[], Awaitable[None]]) -> None:
        super().__init__(session)
        self._happens = happens

    async def of_plan(self, plan_id: int) -> ManifestRecord | None:
        """Look, and then let it happen."""
        found = await super().of_plan(plan_id)
        await self._happens()
        return found


async def test_a_version_published_during_a_look_is_not_taken_for_lost(
    home: Path, clip: Path, ladder_file: Path
) -> None:
    reached, let_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
    packaged = asyncio.Event()
    async with open_platform(Settings(home=home)) as platform:

        async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
            if kind == JobKind.PACKAGE:
                reached.set()
                await let_on.wait()
            await platform.executor.run(kind, claim, args)
            if kind == JobKind.PACKAGE:
                packaged.set()

        async def publish() -> None:
            let_on.set()
            await packaged.wait()

        received = await upload.receive_file(clip, upload_id="u", tenant="default", services=platform.services)
        ladder = load_ladder(str(ladder_file), home=home)
        submission = upload.Submission(tenant="default", title="clip", passthrough="", ladder=ladder)
        asset = await upload.finish(received, submission, asset_id="asset", services=platform.services)
        working = asyncio.ensure_future(platform.work_on_jobs(stop, execute=execute))
        await asyncio.wait_for(reached.wait(), timeout=60)
        async with platform.work.begin() as transaction:
            transaction.manifests = InterruptedManifests(transaction.session, publish)
            seen = await look_at(transaction, asset)
        stop.set()
        await working
    assert seen is not None
    (plan,) = seen.plans
    assert seen.jobs.total > 0 or plan.manifest is not None, "neither a job nor a result was seen"
