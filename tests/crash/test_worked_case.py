"""The worked case of the specification: one rung done, one lost and finished elsewhere, one that cannot be stored."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from psycopg.rows import dict_row
from tests.integration.conftest import FFmpeg

from vodpress import decisions
from vodpress.adapters.queue.rescue import Rescuer
from vodpress.adapters.storage import open_store
from vodpress.bootstrap import Platform, open_platform
from vodpress.domain.deadletter import Decider
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim, JobKind, Queue
from vodpress.domain.ladder import Ladder, Rung
from vodpress.domain.publication import parse_policy
from vodpress.domain.retry import Schedule
from vodpress.executor import Executor
from vodpress.overview import AssetOverview, look_at
from vodpress.settings import Settings
from vodpress.stages import upload

ASSET = "lesson-1"
LADDER = Ladder(
    name="worked",
    preset="ultrafast",
    segment_seconds=2,
    gop_seconds=1,
    slice_seconds=2,
    rungs=(
        Rung(name="1080p", short_side=108, maxrate_kbps=500),  # small pictures: only the names matter
        Rung(name="720p", short_side=72, maxrate_kbps=300),
        Rung(name="480p", short_side=48, maxrate_kbps=200),
    ),
)
TABLES = ("assets", "plans", "renditions", "slices", "manifests", "dead_letters", "outbox", "job_failures")
THREE_TIMES_MORE = {kind: Schedule((0.0, 0.0, 0.0), jitter=0) for kind in JobKind}


class Storage:
    """The installation's storage, which for a while cannot take 480p, and holds A back when it stores 720p."""

    def __init__(self, folder: Path) -> None:
        self._store = open_store(str(folder))
        self.is_broken = True
        self.a_stores = asyncio.Event()
        self.a_goes_on = asyncio.Event()

    async def put_file(self, key: str, path: Path) -> None:
        if "/480p/" in key and self.is_broken:
            raise Failure("storage_unavailable", "The storage did not answer in time.")
        if "/720p/" in key and not self.a_stores.is_set():
            self.a_stores.set()
            await self.a_goes_on.wait()
        await self._store.put_file(key, path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Encoder:
    """FFmpeg, with a note of the rungs of each run."""

    def __init__(self, transcoder: Any) -> None:
        self._transcoder = transcoder
        self.runs: list[list[str]] = []

    async def encode_slice(
        self, source: Path, plan: Any, part: Any, rungs: Sequence[Any], *rest: Any, **more: Any
    ) -> Any:
        self.runs.append([rung.name for rung in rungs])
        return await self._transcoder.encode_slice(source, plan, part, rungs, *rest, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transcoder, name)


class Case:
    """An asset and workers whose every step is taken by hand."""

    def __init__(self, platform: Platform, folder: Path) -> None:
        self.platform = platform
        self.folder = folder
        self.storage = Storage(folder)
        self.encoder = Encoder(platform.services.transcoder)
        store: Any = self.storage
        transcoder: Any = self.encoder
        self.services = dataclasses.replace(platform.services, store=store, transcoder=transcoder)
        self.executor = Executor(self.services, THREE_TIMES_MORE, chance=lambda: 0.5)
        self.rescuer = Rescuer(
            platform.work.begin, schedules=THREE_TIMES_MORE, run_out=self.executor.run_out, lease_seconds=30
        )

    async def submit(self, clip: Path, publish: str) -> None:
        received = await upload.receive_file(clip, upload_id="u", tenant="default", services=self.services)
        policy = parse_policy(publish, known={rung.name for rung in LADDER.rungs})
        submission = upload.Submission("default", "lesson", "", LADDER, publish=policy)
        await upload.finish(received, submission, asset_id=ASSET, services=self.services)

    async def take(self, queue: Queue) -> tuple[str, Claim, Mapping[str, Any]] | None:
        """A worker of its own takes the next job."""
        async with self.platform.pool.connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            await cursor.execute(
                "SELECT * FROM vodpress_fetch_job("
                "%s, %s, (SELECT procrastinate_register_worker_v1()), gen_random_uuid())",
                [str(queue), [str(kind) for kind in JobKind]],
            )
            row = await cursor.fetchone()
        return (row["task_name"], Claim(row["id"], str(row["claim_id"]), row["attempts"]), row["args"]) if row else None

    async def work(self, *queues: Queue) -> int:
        """Take and run jobs until there are none; returns how many."""
        done = 0
        for queue in queues:
            while (job := await self.take(queue)) is not None:
                await self.executor.run(*job)
                done += 1
        return done

    async def rows(self) -> dict[str, list[Any]]:
        found = {}
        async with self.platform.pool.connection() as connection:
            for table in TABLES:
                query = sql.SQL("SELECT * FROM {} AS row ORDER BY row::text").format(sql.Identifier(table))
                found[table] = await (await connection.execute(query)).fetchall()
        return found

    def objects(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }

    async def look(self) -> AssetOverview:
        async with self.platform.work.begin() as transaction:
            overview = await look_at(transaction, ASSET)
        assert overview is not None
        return overview

    async def states(self) -> dict[str, str]:
        (plan,) = (await self.look()).plans
        return {rendition.name: str(rendition.state) for rendition in plan.renditions}

    def manifests(self) -> dict[int, list[str]]:
        """Version → names of its rungs."""
        documents = [json.loads(data) for key, data in self.objects().items() if key.endswith("/manifest.json")]
        return {entry["version"]: [rung["name"] for rung in entry["renditions"]] for entry in documents}

    async def until_a_is_back(self) -> None:
        """1080p is done; A takes 720p and loses its lease; B finishes it; 480p fails three times; A comes back."""
        await self.work(Queue.INGEST, Queue.LIGHT)  # the images are there early
        job = await self.take(Queue.ENCODE)
        assert job is not None
        a = asyncio.ensure_future(self.executor.run(*job))
        await asyncio.wait({a, asyncio.ensure_future(self.storage.a_stores.wait())}, return_when="FIRST_COMPLETED")
        assert await self.states() == {"1080p": "completed", "720p": "encoding", "480p": "encoding"}
        async with self.platform.pool.connection() as connection:
            await connection.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
        assert await self.rescuer.rescue() == 1

        assert await self.work(Queue.ENCODE) == 3
        assert self.encoder.runs == [["1080p", "720p", "480p"], ["720p"], ["480p"], ["480p"], ["480p"]]
        await self.work(Queue.LIGHT)

        before = await self.rows(), self.objects()
        self.storage.a_goes_on.set()
        await a
        assert (await self.rows(), self.objects()) == before, "A changed something"
        assert await self.states() == {"1080p": "completed", "720p": "completed", "480p": "failed"}


@pytest.fixture
async def case(home: Path, database: str, make: FFmpeg, tmp_path: Path) -> AsyncIterator[Case]:
    clip = tmp_path / "lesson.mp4"
    make("-f", "lavfi", "-i", "testsrc2=s=192x108:r=25", "-t", 2, "-c:v", "libx264", "-preset", "ultrafast", clip)
    async with open_platform(Settings(home=home, database_url=database, disk_reserve_bytes=0)) as platform:
        yield Case(platform, home / "storage")


@pytest.fixture
def lesson(tmp_path: Path) -> Path:
    """Made by `case`."""
    return tmp_path / "lesson.mp4"


async def test_the_worked_case_of_the_specification(case: Case, lesson: Path) -> None:
    await case.submit(lesson, "all")
    await case.until_a_is_back()
    overview = await case.look()
    assert overview.asset.state == "processing"
    assert overview.blocked
    assert case.manifests() == {}
    (letter,) = overview.dead_letters
    assert (letter.job_kind, letter.code) == ("encode", "storage_unavailable")
    recorded = {name: (await case.rows())["renditions"] for name in ("1080p", "720p")}

    case.storage.is_broken = False
    async with case.platform.work.begin() as transaction:
        await decisions.retry(transaction, letter.id, Decider("kim", "the storage was mended"))
    case.encoder.runs.clear()
    await case.work(Queue.ENCODE, Queue.LIGHT)
    assert case.encoder.runs == [["480p"]], "480p alone was encoded"
    overview = await case.look()
    assert overview.asset.state == "ready"
    assert not overview.blocked
    assert case.manifests() == {1: ["1080p", "720p", "480p"]}
    assert recorded["1080p"][0] in (await case.rows())["renditions"], "what was kept was not made again"


async def test_the_worked_case_of_the_specification_with_named_rungs(case: Case, lesson: Path) -> None:
    await case.submit(lesson, "1080p,720p")
    await case.until_a_is_back()
    overview = await case.look()
    assert overview.asset.state == "ready"
    assert case.manifests() == {1: ["1080p", "720p"]}
    first = {key: data for key, data in case.objects().items() if "/v1/" in key}

    case.storage.is_broken = False
    (letter,) = overview.dead_letters
    async with case.platform.work.begin() as transaction:
        await decisions.retry(transaction, letter.id, Decider("kim", "the storage was mended"))
    await case.work(Queue.ENCODE, Queue.LIGHT)
    assert case.manifests() == {1: ["1080p", "720p"], 2: ["1080p", "720p", "480p"]}
    assert (await case.look()).asset.live_version == 2
    assert {key: data for key, data in case.objects().items() if "/v1/" in key} == first
