"""Rows, jobs and events change together or not at all, also when many transactions do it at the same instant."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest
from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from vodpress.adapters.db.unit_of_work import PostgresUnitOfWork
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.asset import AssetState
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim
from vodpress.domain.ladder import Ladder, Rung
from vodpress.domain.plan import Picture, Plan, RungPlan, cut
from vodpress.domain.publication import ALL
from vodpress.domain.rendition import PlanState, RenditionState
from vodpress.ports import NewPlan, NewRendition, RenditionRecord, StoredOutput, Transaction
from vodpress.stages import encode, ingest, package, stitch, upload

Pool = AsyncConnectionPool[AsyncConnection[Any]]
Snapshot = Mapping[str, Sequence[Mapping[str, Any]]]

TABLES = ("assets", "plans", "renditions", "slices", "dead_letters", "outbox", "procrastinate_jobs")
LADDER = Ladder(name="test", rungs=(Rung(name="720p", short_side=720, maxrate_kbps=3000),))
_numbers = itertools.count(1)


class PowerCut(Exception):
    """Whatever may end a transaction half-way."""


@pytest.fixture
def work(pool: Pool) -> PostgresUnitOfWork:
    return PostgresUnitOfWork(pool, QueueJobs)


async def snapshot(pool: Pool) -> Snapshot:
    found = {}
    async with pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        for table in TABLES:
            await cursor.execute(sql.SQL("SELECT * FROM {} AS row ORDER BY row::text").format(sql.Identifier(table)))
            found[table] = await cursor.fetchall()
    return found


def jobs(seen: Snapshot) -> Counter[str]:
    return Counter(job["task_name"] for job in seen["procrastinate_jobs"])


def events(seen: Snapshot) -> Counter[str]:
    return Counter(event["type"] for event in seen["outbox"])


def received(content: str) -> upload.Received:
    sha256 = hashlib.sha256(content.encode()).hexdigest()
    return upload.Received(sha256=sha256, bytes=len(content), key=f"sources/default/{sha256}")


async def finish_upload(transaction: Transaction, content: str, *, asset_id: str, passthrough: str = "") -> str:
    submission = upload.Submission(tenant="default", title="A title", passthrough=passthrough, ladder=LADDER)
    return await upload.finish_in(transaction, received(content), submission, asset_id=asset_id)


async def test_a_finished_upload_is_asset_job_and_events(work: PostgresUnitOfWork, pool: Pool) -> None:
    async with work.begin() as transaction:
        assert await finish_upload(transaction, "x", asset_id="a") == "a"
    seen = await snapshot(pool)
    assert [(asset["id"], asset["state"]) for asset in seen["assets"]] == [("a", AssetState.PROCESSING)]
    assert jobs(seen) == {"ingest": 1}
    assert events(seen) == {"video.upload.completed": 1, "video.asset.processing": 1}


async def test_a_rollback_leaves_neither_asset_nor_job_nor_event(work: PostgresUnitOfWork, pool: Pool) -> None:
    async def finish() -> None:
        async with work.begin() as transaction:
            await finish_upload(transaction, "x", asset_id="a")
            raise PowerCut

    with pytest.raises(PowerCut):
        await finish()
    assert await snapshot(pool) == {table: [] for table in TABLES}


async def test_a_lost_connection_leaves_neither_asset_nor_job_nor_event(work: PostgresUnitOfWork, pool: Pool) -> None:
    async def finish() -> None:
        async with work.begin() as transaction:
            await finish_upload(transaction, "x", asset_id="a")
            await transaction.session.change("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(Failure) as caught:
        await finish()
    assert caught.value.code == "database_unavailable"
    assert await snapshot(pool) == {table: [] for table in TABLES}


async def test_a_cancelled_transaction_leaves_neither_asset_nor_job_nor_event(
    work: PostgresUnitOfWork, pool: Pool
) -> None:
    inside = asyncio.Event()

    async def finish() -> None:
        async with work.begin() as transaction:
            await finish_upload(transaction, "x", asset_id="a")
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(finish())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await snapshot(pool) == {table: [] for table in TABLES}


async def test_a_second_finished_upload_changes_nothing(work: PostgresUnitOfWork, pool: Pool) -> None:
    async with work.begin() as transaction:
        await finish_upload(transaction, "x", asset_id="a")
    before = await snapshot(pool)
    for asset_id in ("a", "b"):  # told twice, or sent twice
        async with work.begin() as transaction:
            assert await finish_upload(transaction, "x", asset_id=asset_id) == "a"
        assert await snapshot(pool) == before


async def test_of_many_finished_uploads_at_once_one_counts(work: PostgresUnitOfWork, pool: Pool) -> None:
    together = asyncio.Barrier(8)

    async def finish(number: int) -> str:
        async with work.begin() as transaction:
            await transaction.moment()  # the transaction has begun
            await together.wait()
            return await finish_upload(transaction, "x", asset_id=f"a{number}")

    ids = await asyncio.gather(*(finish(number) for number in range(8)))
    seen = await snapshot(pool)
    assert {asset["id"] for asset in seen["assets"]} == set(ids)
    assert len(set(ids)) == 1
    assert jobs(seen) == {"ingest": 1}
    assert events(seen) == {"video.upload.completed": 1, "video.asset.processing": 1}


async def test_other_bytes_or_another_passthrough_are_another_asset(work: PostgresUnitOfWork, pool: Pool) -> None:
    async with work.begin() as transaction:
        assert await finish_upload(transaction, "x", asset_id="a") == "a"
        assert await finish_upload(transaction, "y", asset_id="b") == "b"
        assert await finish_upload(transaction, "x", asset_id="c", passthrough="mine") == "c"
    assert jobs(await snapshot(pool)) == {"ingest": 3}


def plan_of(rungs: int) -> Plan:
    picture = Picture(
        stream_index=0,
        start_ticks=0,
        tick_seconds=Fraction(1, 12_800),
        longest_gap_seconds=Fraction(1, 25),
        longest_keyframe_gap_seconds=Fraction(2),
        seekable=True,
        deinterlace=False,
        tone_map=False,
    )
    return Plan(
        frame_rate=Fraction(25),
        frames=100,
        gop_frames=50,
        segment_frames=50,
        preset="fast",
        picture=picture,
        rungs=tuple(
            RungPlan(
                name=f"r{number}",
                width=64,
                height=64,
                codec="h264",
                profile="high",
                crf=23,
                maxrate_kbps=100,
                required=True,
            )
            for number in range(rungs)
        ),
        audio=None,
        slices=cut(100, slice_frames=100),
    )


async def add_plan(work: PostgresUnitOfWork, *, rungs: int) -> Sequence[RenditionRecord]:
    """An asset with a plan whose renditions are all on their way."""
    asset_id = f"asset-{next(_numbers)}"
    plan = plan_of(rungs)
    new = [
        NewRendition(name=rung.name, kind="video", required=True, rung_hash=rung.name, slices=1, weight=1.0)
        for rung in plan.rungs
    ]
    async with work.begin() as transaction:
        await finish_upload(transaction, asset_id, asset_id=asset_id)
        plan_id = await transaction.plans.add(
            NewPlan(
                asset_id=asset_id,
                plan_hash="p",
                source_sha256="ab" * 32,
                source_key="sources/a",
                ladder=LADDER,
                plan=plan,
                publish=ALL,
                early_rung=None,
                bulk=False,
                renditions=new,
            )
        )
        assert plan_id is not None
        return await transaction.plans.renditions(plan_id)


def output(rendition: RenditionRecord) -> StoredOutput:
    return StoredOutput(key=f"videos/{rendition.id}.mp4", bytes=1, sha256="ab" * 32, frames=100)


@pytest.mark.parametrize("round_", range(5))
async def test_renditions_that_finish_at_the_same_instant_make_one_package_job(
    work: PostgresUnitOfWork, pool: Pool, round_: int
) -> None:
    renditions = await add_plan(work, rungs=8)
    together = asyncio.Barrier(len(renditions))

    async def complete(rendition: RenditionRecord) -> None:
        async with work.begin() as transaction:
            await transaction.moment()
            await together.wait()
            await package.record_rendition(transaction, rendition, output(rendition))

    await asyncio.gather(*(complete(rendition) for rendition in renditions))
    seen = await snapshot(pool)
    assert jobs(seen) == {"ingest": 1, "package": 1}
    assert events(seen)["video.rendition.completed"] == len(renditions)
    assert [(plan["state"], plan["renditions_open"]) for plan in seen["plans"]] == [(PlanState.PACKAGING, 0)]
    assert {rendition["state"] for rendition in seen["renditions"]} == {RenditionState.COMPLETED}


async def test_renditions_recorded_twice_at_the_same_instant_count_once(work: PostgresUnitOfWork, pool: Pool) -> None:
    renditions = await add_plan(work, rungs=3)
    attempts = [*renditions, *renditions]
    together = asyncio.Barrier(len(attempts))

    async def complete(rendition: RenditionRecord) -> None:
        async with work.begin() as transaction:
            await transaction.moment()
            await together.wait()
            await package.record_rendition(transaction, rendition, output(rendition))

    await asyncio.gather(*(complete(rendition) for rendition in attempts))
    seen = await snapshot(pool)
    assert jobs(seen) == {"ingest": 1, "package": 1}
    assert events(seen)["video.rendition.completed"] == len(renditions)


async def test_a_rollback_of_the_last_rendition_leaves_it_to_do(work: PostgresUnitOfWork, pool: Pool) -> None:
    first, last = await add_plan(work, rungs=2)
    async with work.begin() as transaction:
        await package.record_rendition(transaction, first, output(first))
    before = await snapshot(pool)

    async def record() -> None:
        async with work.begin() as transaction:
            await package.record_rendition(transaction, last, output(last))
            raise PowerCut

    with pytest.raises(PowerCut):
        await record()
    assert await snapshot(pool) == before
    assert jobs(before) == {"ingest": 1}
    async with work.begin() as transaction:
        await package.record_rendition(transaction, last, output(last))
    assert jobs(await snapshot(pool)) == {"ingest": 1, "package": 1}


async def reopen(work: PostgresUnitOfWork, plan_id: int) -> Counter[str]:
    """What ingest does with a plan that failed; returns the kinds of job that it enqueued."""
    async with work.begin() as transaction:
        before = await transaction.session.all("SELECT id FROM procrastinate_jobs")
        await transaction.plans.reopen(plan_id)
        added = await ingest.enqueue_missing(transaction, plan_id)
        known = [row["id"] for row in before]
        rows = await transaction.session.all(
            "SELECT task_name FROM procrastinate_jobs WHERE id <> ALL (%(known)s)", known=known
        )
        assert added == len(rows)
    return Counter(row["task_name"] for row in rows)


async def test_packaging_that_failed_is_repeated_alone(work: PostgresUnitOfWork, pool: Pool) -> None:
    (rendition,) = await add_plan(work, rungs=1)
    async with work.begin() as transaction:
        await package.record_rendition(transaction, rendition, output(rendition))
    async with pool.connection() as connection:
        await connection.execute("UPDATE procrastinate_jobs SET status = 'failed' WHERE task_name = 'package'")
    async with work.begin() as transaction:
        asset_id = (await snapshot(pool))["assets"][0]["id"]
        args = package.Args(
            asset_id=asset_id, plan_id=rendition.plan_id, version=1, renditions=("0p",), waived=(), images=False
        )
        await package.give_up(args, Failure("tool_hung"), transaction)
    assert await reopen(work, rendition.plan_id) == {"thumbnails": 1, "package": 1}
    seen = await snapshot(pool)
    assert jobs(seen) == {"ingest": 1, "package": 2, "thumbnails": 1}
    assert [plan["state"] for plan in seen["plans"]] == [PlanState.PACKAGING]  # from where it can be published


async def test_stitching_that_failed_is_repeated_alone(work: PostgresUnitOfWork, pool: Pool) -> None:
    (rendition,) = await add_plan(work, rungs=1)
    claim = Claim(job_id=1, claim_id=str(uuid.uuid4()), attempt=1)
    async with work.begin() as transaction:
        await transaction.plans.claim_slices(rendition.plan_id, names=[rendition.name], index=0, claim=claim)
        await transaction.plans.complete_slice(rendition.id, 0, claim, output(rendition))
        assert await transaction.plans.start_stitching(rendition.id)
        args = stitch.Args(asset_id="a", plan_id=rendition.plan_id, rendition=rendition.name)
        await stitch.give_up(args, Failure("tool_hung"), transaction)
    assert await reopen(work, rendition.plan_id) == {"stitch": 1, "thumbnails": 1}
    assert [row["state"] for row in (await snapshot(pool))["renditions"]] == [RenditionState.STITCHING]


async def test_a_slice_that_failed_is_repeated_alone(work: PostgresUnitOfWork, pool: Pool) -> None:
    (rendition,) = await add_plan(work, rungs=1)
    async with work.begin() as transaction:
        args = encode.Args(asset_id="a", plan_id=rendition.plan_id, kind="video", index=0)
        await encode.give_up(args, Failure("tool_hung"), transaction)
    assert await reopen(work, rendition.plan_id) == {"encode": 1, "thumbnails": 1}
    assert [row["state"] for row in (await snapshot(pool))["renditions"]] == [RenditionState.ENCODING]
