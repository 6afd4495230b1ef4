"""Every life cycle against the real database: each from × to pair, and what happens together or not at all.

The tables in `domain/` say which changes there are; here the adapter tries all of them on rows put there by plain SQL.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Awaitable, Callable, Mapping
from fractions import Fraction
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from vodpress.adapters.db.assets import PostgresAssets
from vodpress.adapters.db.plans import PostgresPlans
from vodpress.adapters.db.session import Session
from vodpress.domain.asset import ASSET, AssetState
from vodpress.domain.failure import Failure, LeaseLost
from vodpress.domain.job import Claim
from vodpress.domain.lifecycle import IllegalTransition, Lifecycle
from vodpress.domain.plan import Picture, Plan, RungPlan, cut
from vodpress.domain.rendition import PLAN, RENDITION, SLICE, PlanState, RenditionState, SliceState
from vodpress.ports import StoredOutput

Pool = AsyncConnectionPool[AsyncConnection[Any]]
Row = Mapping[str, Any]
Key = Mapping[str, Any]

LONG_AGO = "2020-01-01T00:00:00Z"
FAILURE = Failure("source_corrupt", "It is damaged.")
OUTPUT = StoredOutput(key="videos/a/new.mp4", bytes=7, sha256="ab" * 32, frames=100)
_numbers = itertools.count(1)

DOCUMENT = Plan(
    frame_rate=Fraction(25),
    frames=100,
    gop_frames=50,
    segment_frames=50,
    preset="fast",
    picture=Picture(
        stream_index=0,
        start_ticks=0,
        tick_seconds=Fraction(1, 12_800),
        longest_gap_seconds=Fraction(1, 25),
        longest_keyframe_gap_seconds=Fraction(2),
        seekable=True,
        deinterlace=False,
        tone_map=False,
    ),
    rungs=(
        RungPlan(
            name="720p", width=1280, height=720, codec="h264", profile="high", crf=23, maxrate_kbps=3000, required=True
        ),
    ),
    audio=None,
    slices=cut(100, slice_frames=50),
)


def new_claim() -> Claim:
    return Claim(job_id=1, claim_id=str(uuid.uuid4()), attempt=1)


class Tables:
    """Rows put there and looked at by plain SQL, past the adapter, and the adapter on the same connection."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self.assets = PostgresAssets(Session(connection))
        self.plans = PostgresPlans(Session(connection))

    async def insert(self, table: str, **values: object) -> Any:
        """Insert a row and return its first column."""
        query = sql.SQL("INSERT INTO {} ({}) VALUES ({}) RETURNING *").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(map(sql.Placeholder, values)),
        )
        row = await (await self._connection.execute(query, values)).fetchone()
        assert row is not None
        return row[0]

    async def all(self, table: str) -> list[Row]:
        """Every row of a table, in a stable order."""
        async with self._connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(sql.SQL("SELECT * FROM {} AS row ORDER BY row::text").format(sql.Identifier(table)))
            return [*await cursor.fetchall()]

    async def split(self, table: str, key: Key) -> tuple[Row, list[Row]]:
        """The row with that key, and all others."""
        rows = await self.all(table)
        (mine,) = [row for row in rows if key.items() <= row.items()]
        return mine, [row for row in rows if row is not mine]

    async def put_asset(self, state: AssetState) -> Key:
        """An asset in a state, with what the constraints ask for."""
        number = next(_numbers)
        facts: dict[AssetState, dict[str, object]] = {
            AssetState.READY: {"ready_at": LONG_AGO, "live_version": 3},
            AssetState.ERRORED: {"reason_code": "no_video_stream", "reason_message": "No picture."},
        }
        asset_id = await self.insert(
            "assets",
            id=f"asset-{number}",
            state=state,
            title="a title",
            source_sha256=hashlib.sha256(str(number).encode()).hexdigest(),
            source_key=f"sources/{number}",
            source_bytes=1,
            updated_at=LONG_AGO,
            **facts.get(state, {}),
        )
        return {"id": asset_id}

    async def put_plan(self, state: PlanState, *, renditions_open: int = 0) -> Key:
        """A plan of a new asset in a state."""
        asset = await self.put_asset(AssetState.PROCESSING)
        plan_id = await self.insert(
            "plans",
            asset_id=asset["id"],
            plan_hash=f"hash-{next(_numbers)}",
            source_sha256="ab" * 32,
            source_key="sources/a",
            ladder_name="test",
            document=DOCUMENT.model_dump_json(),
            state=state,
            renditions_open=renditions_open,
        )
        return {"id": plan_id}

    async def put_rendition(self, state: RenditionState, *, slices_open: int = 0) -> Key:
        """A rendition of a new plan in a state."""
        plan = await self.put_plan(PlanState.ENCODING, renditions_open=1)
        recorded = {"completed_at": LONG_AGO, "key": "old", "sha256": "cd" * 32, "bytes": 1, "frames": 1}
        facts: dict[RenditionState, dict[str, object]] = {
            RenditionState.COMPLETED: recorded,
            RenditionState.FAILED: {"reason_code": "tool_hung", "reason_message": "It hung."},
            RenditionState.WAIVED: {"reason_code": "tool_hung", "reason_message": "It hung."},
        }
        rendition_id = await self.insert(
            "renditions",
            plan_id=plan["id"],
            name="720p",
            kind="video",
            ordinal=0,
            required=True,
            rung_hash="r",
            weight=1.0,
            state=state,
            slices_open=slices_open,
            **facts.get(state, {}),
        )
        return {"id": rendition_id, "plan_id": plan["id"]}

    async def put_slice(
        self,
        state: SliceState,
        *,
        rendition: Key | None = None,
        index: int = 0,
        claim: Claim | None = None,
        **changes: object,
    ) -> Key:
        """A slice in a state, of a rendition that is being encoded; one that is held is held under the claim."""
        rendition = rendition or await self.put_rendition(RenditionState.ENCODING, slices_open=2)
        facts: dict[SliceState, dict[str, object]] = {
            SliceState.ENCODING: {"lease": (claim or new_claim()).claim_id, "attempt": 1},
            SliceState.COMPLETED: {"completed_at": LONG_AGO, "key": "old", "sha256": "cd" * 32, "attempt": 1},
        }
        values = {**facts.get(state, {}), **changes}
        await self.insert("slices", rendition_id=rendition["id"], index=index, state=state, **values)
        return {"rendition_id": rendition["id"], "index": index}


Put = Callable[[Tables, Any, Any], Awaitable[Key]]
Move = Callable[[Tables, Key, Any], Awaitable[bool]]


async def walk(
    pool: Pool,
    cycle: Lifecycle[Any],
    *,
    put: Put,
    move: Move,
    touches: Mapping[Any, set[str]],
    again: Mapping[Any, set[str]] | None = None,
) -> None:
    """Try every pair, each in a transaction that is rolled back.

    Args:
        put: makes a row in the first state, such that nothing but its state stands against the second; returns its key.
        move: asks the adapter for a change; returns whether it said that there was one.
        touches: for each target, the columns that a change to it may touch beside the state.
        again: columns that change where a row is asked for a state it is in already.
    """
    for source, target in itertools.product(cycle.moves, cycle.moves):
        async with pool.connection() as connection, connection.transaction(force_rollback=True):
            tables = Tables(connection)
            key = await put(tables, source, target)
            await put(tables, source, target)  # a neighbour in the same state, which must not come along
            before, others_before = await tables.split(cycle.name, key)
            said = await move(tables, key, target)
            after, others_after = await tables.split(cycle.name, key)
        pair = f"{cycle.name}: {source} → {target}"
        assert said == cycle.allows(source, target), pair
        assert after["state"] == (target if said else source), pair
        touched = {name for name in before if before[name] != after[name]}
        if said:
            assert {"state"} <= touched <= {"state"} | touches[target], pair
        else:
            assert touched <= ((again or {}).get(target, set()) if source is target else set()), pair
        assert others_after == others_before, pair


async def test_assets_change_as_their_table_says(pool: Pool) -> None:
    async def move(tables: Tables, key: Key, target: AssetState) -> bool:
        reason = FAILURE if target is AssetState.ERRORED else None
        version = 7 if target is AssetState.READY else None
        try:
            return await tables.assets.move(key["id"], target, reason=reason, live_version=version)
        except IllegalTransition:
            return False

    reason = {"reason_code", "reason_message", "updated_at"}
    await walk(
        pool,
        ASSET,
        put=lambda tables, source, _target: tables.put_asset(source),
        move=move,
        touches={
            AssetState.UPLOADING: {"updated_at"},
            AssetState.PROCESSING: reason,  # that of an earlier error goes away
            AssetState.READY: {"live_version", "ready_at", "updated_at"},
            AssetState.ERRORED: reason,
        },
    )


async def test_plans_change_as_their_table_says(pool: Pool) -> None:
    async def move(tables: Tables, key: Key, target: PlanState) -> bool:
        return await tables.plans.move(key["id"], target)

    async def put(tables: Tables, source: PlanState, _target: PlanState) -> Key:
        return await tables.put_plan(source)

    await walk(pool, PLAN, put=put, move=move, touches={state: set() for state in PlanState})


async def test_renditions_change_as_their_table_says(pool: Pool) -> None:
    async def put(tables: Tables, source: RenditionState, target: RenditionState) -> Key:
        whole = target is not RenditionState.ENCODING or source in {RenditionState.STITCHING, RenditionState.COMPLETED}
        key = await tables.put_rendition(source, slices_open=0 if whole else 1)
        await tables.put_slice(SliceState.COMPLETED if whole else SliceState.PENDING, rendition=key)
        return key

    async def move(tables: Tables, key: Key, target: RenditionState) -> bool:
        plans, rendition_id, plan_id = tables.plans, key["id"], key["plan_id"]
        match target:
            case RenditionState.PENDING:
                return False  # nothing in the adapter makes it so
            case RenditionState.ENCODING:
                before, _ = await tables.split("renditions", {"id": rendition_id})
                await plans.claim_slices(plan_id, names=["720p"], index=0, claim=new_claim())
                await plans.reopen(plan_id)
                after, _ = await tables.split("renditions", {"id": rendition_id})
                return bool(before["state"] != after["state"])
            case RenditionState.STITCHING:
                before, _ = await tables.split("renditions", {"id": rendition_id})
                await plans.start_stitching(rendition_id)
                await plans.reopen(plan_id)
                after, _ = await tables.split("renditions", {"id": rendition_id})
                return bool(before["state"] != after["state"])
            case RenditionState.COMPLETED:
                return await plans.complete_rendition(rendition_id, OUTPUT) is not None
            case RenditionState.FAILED:
                return await plans.fail_rendition(rendition_id, FAILURE)
            case RenditionState.WAIVED:
                return await plans.waive_rendition(rendition_id)

    await walk(
        pool,
        RENDITION,
        put=put,
        move=move,
        touches={
            RenditionState.ENCODING: {"reason_code", "reason_message"},
            RenditionState.STITCHING: {"reason_code", "reason_message"},
            RenditionState.COMPLETED: {"completed_at", "key", "bytes", "sha256", "frames"},
            RenditionState.FAILED: {"reason_code", "reason_message"},
            RenditionState.WAIVED: set(),
        },
    )


async def test_slices_change_as_their_table_says(pool: Pool) -> None:
    claims: dict[int, Claim] = {}

    async def put(tables: Tables, source: SliceState, _target: SliceState) -> Key:
        claim = new_claim()
        key = await tables.put_slice(source, claim=claim)
        await tables.put_slice(SliceState.ENCODING, rendition={"id": key["rendition_id"]}, index=1)  # somebody else's
        claims[key["rendition_id"]] = claim
        return key

    async def move(tables: Tables, key: Key, target: SliceState) -> bool:
        claim = claims[key["rendition_id"]]
        before, _ = await tables.split("slices", key)
        match target:
            case SliceState.PENDING:
                await tables.plans.release_slices(claim)
            case SliceState.ENCODING:
                rendition, _ = await tables.split("renditions", {"id": key["rendition_id"]})
                await tables.plans.claim_slices(rendition["plan_id"], names=["720p"], index=0, claim=claim)
            case SliceState.COMPLETED:
                try:
                    await tables.plans.complete_slice(key["rendition_id"], key["index"], claim, OUTPUT)
                except LeaseLost:
                    return False
        after, _ = await tables.split("slices", key)
        return bool(before["state"] != after["state"])

    await walk(
        pool,
        SLICE,
        put=put,
        move=move,
        touches={
            SliceState.PENDING: {"lease"},
            SliceState.ENCODING: {"lease", "attempt"},
            SliceState.COMPLETED: {"lease", "completed_at", "key", "bytes", "sha256", "frames"},
        },
        again={SliceState.ENCODING: {"attempt"}},  # the same claim after a lost answer
    )


async def test_a_newer_claim_supersedes_an_older_one(pool: Pool) -> None:
    async with pool.connection() as connection:
        tables = Tables(connection)
        older, newer = new_claim(), new_claim()
        rendition = await tables.put_rendition(RenditionState.PENDING, slices_open=1)
        key = await tables.put_slice(SliceState.PENDING, rendition=rendition)
        for attempt, claim in enumerate((older, newer), start=1):
            (claimed,) = await tables.plans.claim_slices(rendition["plan_id"], names=["720p"], index=0, claim=claim)
            assert (claimed.id, claimed.state) == (rendition["id"], RenditionState.ENCODING)
            (part,) = await tables.plans.slices(rendition["id"])
            assert (part.state, part.lease, part.attempt) == (SliceState.ENCODING, claim.claim_id, attempt)
        before = await tables.split("slices", key)
        with pytest.raises(LeaseLost):
            await tables.plans.complete_slice(rendition["id"], 0, older, OUTPUT)
        await tables.plans.release_slices(older)
        assert await tables.split("slices", key) == before
        assert await tables.plans.complete_slice(rendition["id"], 0, newer, OUTPUT) == 0
        with pytest.raises(LeaseLost):
            await tables.plans.complete_slice(rendition["id"], 0, newer, OUTPUT)
        (row,) = await tables.plans.renditions(rendition["plan_id"])
        assert row.slices_open == 0
        assert await tables.plans.claim_slices(rendition["plan_id"], names=["720p"], index=0, claim=older) == []


async def test_only_the_first_completion_counts(pool: Pool) -> None:
    async with pool.connection() as connection:
        tables = Tables(connection)
        rendition = await tables.put_rendition(RenditionState.ENCODING)
        assert await tables.plans.complete_rendition(rendition["id"], OUTPUT) == 0
        before = await tables.all("renditions"), await tables.all("plans")
        assert await tables.plans.complete_rendition(rendition["id"], OUTPUT) is None
        assert (await tables.all("renditions"), await tables.all("plans")) == before


@pytest.mark.parametrize("state", [RenditionState.FAILED, RenditionState.COMPLETED, RenditionState.STITCHING])
async def test_slices_of_a_rendition_that_is_over_are_not_taken(pool: Pool, state: RenditionState) -> None:
    async with pool.connection() as connection:
        tables = Tables(connection)
        rendition = await tables.put_rendition(state)
        await tables.put_slice(SliceState.PENDING, rendition=rendition)
        before = await tables.all("slices")
        assert await tables.plans.claim_slices(rendition["plan_id"], names=["720p"], index=0, claim=new_claim()) == []
        assert await tables.all("slices") == before


async def test_stitching_waits_for_every_slice(pool: Pool) -> None:
    async with pool.connection() as connection:
        tables = Tables(connection)
        rendition = await tables.put_rendition(RenditionState.ENCODING, slices_open=1)
        assert not await tables.plans.start_stitching(rendition["id"])


async def test_the_database_itself_refuses_states_without_their_facts(pool: Pool) -> None:
    lies: dict[str, Callable[[Tables], Awaitable[object]]] = {
        "assets_source_known": lambda tables: tables.insert("assets", id="a", state="processing", title=""),
        "assets_ready_has_manifest": lambda tables: tables.insert(
            "assets", id="a", state="ready", title="", source_key="k", ready_at=LONG_AGO
        ),
        "assets_errored_has_reason": lambda tables: tables.insert("assets", id="a", state="errored", title=""),
        "plans_packaging_is_complete": lambda tables: tables.put_plan(PlanState.PACKAGING, renditions_open=1),
        "renditions_stitching_has_slices": lambda tables: tables.put_rendition(RenditionState.STITCHING, slices_open=1),
        "slices_encoding_is_leased": lambda tables: tables.put_slice(SliceState.ENCODING, lease=None),
        "slices_completed_is_recorded": lambda tables: tables.put_slice(SliceState.COMPLETED, sha256=None),
    }
    for constraint, lie in lies.items():
        async with pool.connection() as connection, connection.transaction(force_rollback=True):
            with pytest.raises(psycopg.errors.CheckViolation) as caught:
                await lie(Tables(connection))
        assert caught.value.diag.constraint_name == constraint
