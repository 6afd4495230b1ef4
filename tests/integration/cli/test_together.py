"""Several commands at once over one home: one server, no work done twice, and deletion under a worker's hands."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.integration.cli.conftest import FRAMES_A_SLICE, StandIn
from tests.integration.cli.console import CRAWL, GATED, Vodpress, assert_gone, wait_for_recorded_slice, wait_until

from vodpress.adapters.storage.local import LocalObjectStore
from vodpress.asset_removal import delete_asset
from vodpress.bootstrap import Platform, open_platform
from vodpress.executor import Executor
from vodpress.ladder_files import load_ladder
from vodpress.ports import UnitOfWork
from vodpress.settings import Settings
from vodpress.stages import upload


def starts_of_the_server(vodpress: Vodpress) -> int:
    log = (vodpress.home / "postgres" / "log").read_text()
    return log.count("database system is ready to accept connections")


def test_two_runs_with_different_files_share_one_server(
    vodpress: Vodpress,
    clip: Path,
    other_clip: Path,
    ladder_file: Path,
    out: Path,
    replace_ffmpeg: StandIn,
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    gated = replace_ffmpeg(GATED.format(gate=gate))
    options = ("--out", out, "--ladder", ladder_file, "--json")
    settings: dict[str, Any] = {"ffmpeg": gated, "encode_jobs": 1}
    with (
        vodpress.start("process", clip, *options, **settings) as one,
        vodpress.start("process", other_clip, *options, **settings) as two,
    ):
        wait_until(lambda: len(list(tmp_path.glob("gate.*"))) >= 2, "both encode")
        assert starts_of_the_server(vodpress) == 1
        gate.touch()
        ended = [one.end(), two.end()]
    assert [each.status for each in ended] == [0, 0], ended
    assert [each.document["state"] for each in ended] == ["ready", "ready"]
    assert sorted(path.name for path in out.iterdir()) == ["clip", "other"]
    vodpress.await_stopped_server()
    assert starts_of_the_server(vodpress) == 1
    assert {job["state"] for job in vodpress.json("queue", "list")} == {"succeeded"}


def test_two_runs_with_the_same_file_do_the_work_once(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gated = replace_ffmpeg(GATED.format(gate=gate))
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    settings: dict[str, Any] = {"ffmpeg": gated, "encode_jobs": 1}
    with vodpress.start(*command, **settings) as one, vodpress.start(*command, **settings) as two:
        wait_until(lambda: len(list(tmp_path.glob("gate.*"))) >= 2, "both encode")
        gate.touch()
        ended = [one.end(), two.end()]
    assert [each.status for each in ended] == [0, 0], ended
    assert ended[0].document["asset"] == ended[1].document["asset"]
    assert sorted(path.name for path in out.iterdir()) == ["clip", "clip-2"]
    vodpress.await_stopped_server()
    assert {part["attempt"] for part in vodpress.slices().values()} == {1}
    jobs = vodpress.json("queue", "list")
    assert {(job["state"], job["attempt"]) for job in jobs} == {("succeeded", 1)}
    assert sum(job["kind"] == "package" for job in jobs) == 1
    assert len(vodpress.objects("sources/")) == 1
    assert vodpress.objects("incoming/") == {}


def test_deleting_an_asset_stops_the_work_on_it(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    crawl = replace_ffmpeg(CRAWL, first_frame=FRAMES_A_SLICE)
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    with vodpress.start(*command, ffmpeg=crawl, encode_jobs=1) as running:
        wait_for_recorded_slice(vodpress, running, "180p")
        wait_until(lambda: running.tools("-readrate"), "an encode crawls")
        tools = running.tools()
        (asset,) = vodpress.json("asset", "list")
        assert vodpress.json("asset", "delete", asset["asset"])["deleted"]
        assert_gone(tools)
        ended = running.end()
    assert ended.status == 5, ended
    assert ended.document["asset"] == asset["asset"]
    assert ended.document["reason"]["code"] == "asset_deleted"
    assert ended.document["manifest"] is None
    assert vodpress.objects() == {}
    assert list(out.iterdir()) == []
    assert vodpress.json("asset", "list") == []
    assert {job["state"] for job in vodpress.json("queue", "list")} <= {"succeeded", "cancelled"}


class LateStore(LocalObjectStore):
    """A storage in which an asset is deleted while a worker's first output is on its way, past calling back."""

    work: UnitOfWork
    asset_id: str
    deletions = 0

    async def put_file(self, key: str, path: Path, *, create_only: bool = False) -> None:
        """Delete first, then store, and end as the caller wishes."""
        writing = asyncio.ensure_future(self._put_late(key, path, create_only=create_only))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await writing
            raise

    async def _put_late(self, key: str, path: Path, *, create_only: bool) -> None:
        if self.deletions == 0 and key.startswith(f"videos/{self.asset_id}/"):
            self.deletions += 1
            await delete_asset(self.asset_id, work=self.work, store=self)
        await super().put_file(key, path, create_only=create_only)


async def test_what_is_stored_after_a_deletion_goes_too(home: Path, clip: Path, ladder_file: Path) -> None:
    settings = Settings(home=home, encode_jobs=1, light_jobs=1)
    async with AsyncExitStack() as stack:
        platform: Platform = await stack.enter_async_context(open_platform(settings))
        store = LateStore(home / "storage")
        store.work, store.asset_id = platform.work, "doomed"
        services = dataclasses.replace(platform.services, store=store)
        executor = Executor(services, platform.schedules, chance=lambda: 0.5)
        received = await upload.receive_file(clip, upload_id="upload", tenant="default", services=services)
        submission = upload.Submission(
            tenant="default", title="clip", passthrough="", ladder=load_ladder(str(ladder_file), home=home)
        )
        await upload.finish(received, submission, asset_id="doomed", services=services)
        stop = asyncio.Event()
        working = asyncio.ensure_future(platform.work_on_jobs(stop, execute=executor.run))
        while store.deletions == 0:
            assert not working.done()
            await asyncio.sleep(0.02)
        stop.set()
        await working
    console = Vodpress(home)
    assert console.objects() == {}
    assert console.json("asset", "list") == []
