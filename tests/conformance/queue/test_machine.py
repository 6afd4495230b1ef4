"""Any order of what may happen to jobs, against PostgreSQL and a plain model of what must hold."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg import Rollback
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from tests.conformance.queue.workers import SETTLERS, Connection, Pool, Rescue, fetch_on

from vodpress.adapters.queue import settle
from vodpress.adapters.queue.decide import revive
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.domain.failure import LeaseLost
from vodpress.domain.job import Claim, JobKind, JobRequest, JobState, Priority, Queue

MOST_ATTEMPTS = 2
LIVE = {JobState.TODO, JobState.DOING}
ENDS = {"complete": JobState.SUCCEEDED, "bury": JobState.FAILED, "discard": JobState.CANCELLED}
KINDS = {Queue.LIGHT: JobKind.PACKAGE, Queue.ENCODE: JobKind.STITCH}
WAYS = [*SETTLERS, "retry at once", "bury"]

T = TypeVar("T")
numbers = st.integers(1, 4)
commits = st.sampled_from([True, True, True, False])


@dataclass
class Job:
    """What must be true of one job.

    Attributes:
        taken: how often it was fetched since it was enqueued or revived.
        given_back: how many of these attempts did not count in the end.
        claim: the live one.
        abandoned: its worker gives no sign of life.
    """

    id: int
    number: int
    queue: Queue
    priority: int
    state: JobState = JobState.TODO
    taken: int = 0
    given_back: int = 0
    claim: str | None = None
    delayed: bool = False
    abandoned: bool = False

    @property
    def attempts(self) -> int:
        return self.taken - self.given_back

    def leave(self, state: JobState, *, delayed: bool = False) -> None:
        self.state, self.claim, self.abandoned, self.delayed = state, None, False, delayed


class QueueMachine(RuleBasedStateMachine):
    """Every statement of the queue, in transactions that are committed or rolled back, by workers live and dead."""

    conninfo: str

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[int, Job] = {}
        self.claims: list[Claim] = []
        self.loop = asyncio.Runner()
        self.pool: Pool = self.wait_for(self.start())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    async def start(self) -> Pool:
        pool: Pool = AsyncConnectionPool(self.conninfo, min_size=1, max_size=4, open=False)
        await pool.open(wait=True)
        async with pool.connection() as connection:
            await connection.execute("DELETE FROM procrastinate_jobs")
            await connection.execute("DELETE FROM procrastinate_workers")
        return pool

    def teardown(self) -> None:
        try:
            self.wait_for(self.pool.close())
        finally:
            self.loop.close()

    def live(self, number: int) -> list[Job]:
        """Waiting and running jobs of a key. There is one key an asset, so also those of the asset."""
        return [job for job in self.jobs.values() if job.number == number and job.state in LIVE]

    def in_state(self, *states: JobState) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in states]

    def held(self, *, live: bool) -> list[Claim]:
        """The claims that are live, or those that are void by now."""
        return [claim for claim in self.claims if (self.jobs[claim.job_id].claim == claim.claim_id) == live]

    @initialize()
    def begin(self) -> None:
        self.add([1, 2, 3], Queue.LIGHT, Priority.NORMAL, commit=True)

    @rule(
        wanted=st.lists(numbers, min_size=1, max_size=3),
        queue=st.sampled_from(list(KINDS)),
        priority=st.sampled_from(Priority),
        commit=commits,
    )
    def enqueue(self, wanted: list[int], queue: Queue, priority: Priority, commit: bool) -> None:
        self.add(wanted, queue, priority, commit=commit)

    def add(self, wanted: list[int], queue: Queue, priority: Priority, *, commit: bool) -> None:
        new = [number for number in dict.fromkeys(wanted) if not self.live(number)]
        requests = [JobRequest(KINDS[queue], {"asset_id": f"a{n}"}, f"key:{n}", priority) for n in wanted]

        async def act(connection: Connection) -> list[int]:
            assert await QueueJobs(connection).enqueue(*requests) == len(new)
            rows = await connection.execute("SELECT id FROM procrastinate_jobs ORDER BY id")
            return [row[0] for row in await rows.fetchall() if row[0] not in self.jobs]

        ids = self.in_transaction(act, commit)
        if commit:
            for job_id, number in zip(ids, new, strict=True):
                self.jobs[job_id] = Job(job_id, number, queue, priority)

    @rule(data=st.data(), commit=commits)
    def fetch(self, data: st.DataObject, commit: bool) -> None:
        busy = sorted({job.queue for job in self.in_state(JobState.TODO)})
        queue = data.draw(st.sampled_from(busy or list(KINDS)))
        waiting = [job for job in self.in_state(JobState.TODO) if job.queue is queue and not job.delayed]
        expected = min(waiting, key=lambda job: (-job.priority, job.id), default=None)
        claim = self.in_transaction(lambda connection: fetch_on(connection, queue=queue), commit)
        if claim is None or expected is None:
            assert claim is expected
            return
        assert (claim.job_id, claim.attempt) == (expected.id, expected.attempts + 1)
        self.claims.append(claim)  # also one that was rolled back: whoever has it can do nothing with it
        if commit:
            expected.state, expected.claim, expected.taken = JobState.DOING, claim.claim_id, expected.taken + 1

    @precondition(lambda self: self.held(live=True))
    @rule(data=st.data(), way=st.sampled_from(WAYS), commit=commits)
    def settle(self, data: st.DataObject, way: str, commit: bool) -> None:
        claim = data.draw(st.sampled_from(self.held(live=True)))
        self.in_transaction(lambda connection: settling(connection, claim, way), commit)
        if not commit or way == "verify":
            return
        job = self.jobs[claim.job_id]
        job.given_back += way in {"snooze", "hand_back"}
        job.leave(ENDS.get(way, JobState.TODO), delayed=way in {"snooze", "retry"})

    @precondition(lambda self: self.held(live=False))
    @rule(data=st.data(), way=st.sampled_from(WAYS))
    def come_back_from_the_dead(self, data: st.DataObject, way: str) -> None:
        claim = data.draw(st.sampled_from(self.held(live=False)))
        with pytest.raises(LeaseLost):
            self.in_transaction(lambda connection: settling(connection, claim, way), commit=True)

    @precondition(lambda self: self.held(live=True))
    @rule(data=st.data(), sign=st.sampled_from(["falls silent", "falls silent", "comes back", "leaves"]))
    def worker(self, data: st.DataObject, sign: str) -> None:
        job = self.jobs[data.draw(st.sampled_from(self.held(live=True))).job_id]
        worker = "WHERE id = (SELECT worker_id FROM procrastinate_jobs WHERE id = %s)"

        async def act(connection: Connection) -> bool:
            if sign == "leaves":
                cursor = await connection.execute(f"DELETE FROM procrastinate_workers {worker}".encode(), (job.id,))
            else:
                age = "1 day" if sign == "falls silent" else "0"
                cursor = await connection.execute(
                    f"UPDATE procrastinate_workers SET last_heartbeat = now() - %s::interval {worker}".encode(),
                    (age, job.id),
                )
            return cursor.rowcount == 1

        if self.in_transaction(act, commit=True):  # one that has left does not come back
            job.abandoned = sign != "comes back"

    @precondition(lambda self: self.in_state(JobState.DOING))
    @rule(rescuers=st.integers(1, 3))
    def rescue(self, rescuers: int) -> None:
        abandoned = [job for job in self.jobs.values() if job.abandoned]
        dead = [job for job in abandoned if job.attempts >= MOST_ATTEMPTS]
        rescues = [GivesUp(self.pool, attempts=MOST_ATTEMPTS) for _ in range(rescuers)]

        async def act() -> list[int]:
            return list(await asyncio.gather(*(each.rescue() for each in rescues)))

        assert sum(self.wait_for(act())) == len(abandoned)
        assert sorted(job_id for each in rescues for job_id in each.given_up) == sorted(job.id for job in dead)
        for job in abandoned:
            job.leave(JobState.FAILED if job in dead else JobState.TODO)

    @precondition(lambda self: len(self.in_state(*LIVE)) > 2)  # seldom enough to leave lives to live
    @rule(number=numbers, commit=commits)
    def cancel(self, number: int, commit: bool) -> None:
        live = self.live(number)
        cancelled = self.in_transaction(lambda connection: QueueJobs(connection).cancel_of_asset(f"a{number}"), commit)
        assert cancelled == len(live)
        if commit:
            for job in live:
                job.leave(JobState.CANCELLED)

    @precondition(lambda self: any(job.delayed for job in self.jobs.values()))
    @rule(number=numbers, commit=commits)
    def hasten(self, number: int, commit: bool) -> None:
        delayed = [job for job in self.live(number) if job.delayed]
        hastened = self.in_transaction(lambda connection: QueueJobs(connection).hasten_of_asset(f"a{number}"), commit)
        assert hastened == len(delayed)
        if commit:
            for job in delayed:
                job.delayed = False

    @precondition(lambda self: self.in_state(JobState.FAILED))
    @rule(data=st.data(), commit=commits)
    def revive(self, data: st.DataObject, commit: bool) -> None:
        job = data.draw(st.sampled_from(self.in_state(JobState.FAILED)))
        possible = not self.live(job.number)
        assert self.in_transaction(lambda connection: revive(connection, job.id), commit) == possible
        if possible and commit:
            job.leave(JobState.TODO)
            job.taken = job.given_back = 0

    def in_transaction(self, act: Any, commit: bool) -> Any:
        async def transact() -> Any:
            result = None
            async with self.pool.connection() as connection:
                with suppress(Rollback):
                    async with connection.transaction():
                        result = await act(connection)
                        if not commit:
                            raise Rollback
            return result

        return self.wait_for(transact())

    @invariant()
    def holds(self) -> None:
        rows = {row["id"]: row for row in self.wait_for(self.rows())}
        assert rows.keys() == self.jobs.keys(), "no job is lost, none appears"
        for job_id, job in self.jobs.items():
            row = rows[job_id]
            assert (row["status"], row["attempts"], row["claim"]) == (job.state, job.attempts, job.claim)
            assert row["delayed"] == (job.delayed and job.state is JobState.TODO)
            assert (row["claim"] is not None) == (row["status"] == JobState.DOING), "running, if and only if claimed"
            assert row["has_worker"] <= (row["status"] == JobState.DOING), "who waits or has ended has no worker"
        held = [row["claim"] for row in rows.values() if row["claim"] is not None]
        assert len(set(held)) == len(held), "a claim is on one job"
        keys = [row["unique_key"] for row in rows.values() if row["status"] in LIVE]
        assert len(set(keys)) == len(keys), "a key waits or runs once"

    async def rows(self) -> list[dict[str, Any]]:
        async with self.pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(
                """
                SELECT id, status, attempts, claim_id::text AS claim, worker_id IS NOT NULL AS has_worker, unique_key,
                    status = 'todo' AND coalesce(scheduled_at > now(), false) AS delayed
                FROM procrastinate_jobs
                """
            )
            return await cursor.fetchall()


async def settling(connection: Connection, claim: Claim, way: str) -> None:
    if way == "retry at once":
        await settle.retry(connection, claim, 0)
    else:
        await SETTLERS[way](connection, claim)


class GivesUp(Rescue):
    """A rescue of jobs of any kind."""

    async def run_out(self, kind: str, claim: Claim, args: Any, transaction: Any) -> None:
        await transaction.session.change("SELECT 1")
        self.given_up.append(claim.job_id)


def test_whatever_happens_in_whatever_order(database: str) -> None:
    class Machine(QueueMachine):
        conninfo = database

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=200,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
