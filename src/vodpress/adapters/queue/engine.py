"""procrastinate's job manager with our statements in place of its own, where its guarantees are weaker than ours.

It fetches under a new claim and counts the attempt there; it does not settle, for handlers do that in the transaction
of their result; and it goes on fetching and listening after a lost connection.
"""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import structlog
from procrastinate import PsycopgConnector, exceptions, jobs
from procrastinate.connector import LISTEN_TIMEOUT, BaseConnector, Notify
from procrastinate.manager import JobManager, NotificationCallback
from psycopg import AsyncConnection

from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import CONNECTION_LOST, let_cancellation_pass
from vodpress.domain.job import Claim, Queue

_SQL = load(__package__, "engine.sql")
_AGAIN_SECONDS = 1.0
_YIELDS_TO = {str(Queue.ENCODE_BULK): str(Queue.ENCODE)}

_log = structlog.get_logger(__name__)


class Gate(Protocol):
    """Says whether this process may take jobs now."""

    def take(self) -> bool:
        """Whether one may be taken; if so it counts as taken until `give_back`."""
        ...

    def give_back(self) -> None:
        """The one that was taken has ended, or there was none."""
        ...


@dataclass(frozen=True, slots=True)
class Serving:
    """What a worker is for."""

    queue: str
    concurrency: int
    node: str


serving: ContextVar[Serving] = ContextVar("serving")
"""Set where a worker is run: the engine registers it without saying what it serves."""


class AttentiveConnector(PsycopgConnector):
    """Looks for jobs once more when it has begun to listen: one may have come since the last look."""

    async def _loop_notify(
        self,
        on_notification: Notify,
        connection: AsyncConnection[Any],
        timeout: float = LISTEN_TIMEOUT,  # noqa: ASYNC109 - the engine's signature
    ) -> None:
        await on_notification(channel="", payload=json.dumps({"type": "job_inserted", "job_id": 0}))
        await super()._loop_notify(on_notification=on_notification, connection=connection, timeout=timeout)


class ClaimingJobManager(JobManager):
    """Fetches jobs under claims, and knows which claims this process holds.

    Args:
        kinds: the job kinds that this release can run; others are left to workers that can.
        stopping: once it is set, nothing more is fetched.
        gate: asked before each fetch.
    """

    def __init__(
        self, connector: BaseConnector, kinds: Sequence[str], stopping: asyncio.Event, gate: Gate | None = None
    ) -> None:
        super().__init__(connector)
        self._gate = gate
        self._kinds = list(kinds)
        self._stopping = stopping
        self._held: dict[str, int] = {}
        self._of_job: dict[int, Claim] = {}
        self._heard: Counter[str] = Counter()

    def claim_of(self, job_id: int) -> Claim:
        """The claim under which this process holds a job."""
        return self._of_job[job_id]

    def let_go(self, claim: Claim) -> None:
        """The handler of this claim has ended, whether or not it could settle the job."""
        if self._held.pop(claim.claim_id, None) is not None and self._gate is not None:
            self._gate.give_back()
        if self._of_job.get(claim.job_id) == claim:
            del self._of_job[claim.job_id]

    def worker_of(self, claim_id: str) -> int | None:
        """The worker that holds a claim; `None` when it was let go."""
        return self._held.get(claim_id)

    async def register_worker(self) -> int:
        """Register a worker, and with it, for `doctor` and for estimates, what it serves and where."""
        worker_id = await super().register_worker()
        worker = serving.get()
        await self.connector.execute_query_async(
            query=_SQL["put_on_record"],
            worker_id=worker_id,
            node=worker.node,
            process_id=os.getpid(),
            queue=worker.queue,
            concurrency=worker.concurrency,
        )
        return worker_id

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> jobs.Job | None:
        """Take the next job of the worker's one queue under a new claim; a lost database is waited for."""
        (queue,) = queues or ()
        while not self._stopping.is_set():
            heard = self._heard[queue]
            try:
                job = await self._fetch_through_gate(queue, worker_id)
            except exceptions.ConnectorException as error:
                let_cancellation_pass(error)
                if not isinstance(error.__cause__, CONNECTION_LOST):
                    raise
                # The engine would end the worker and all that it runs, though the leases may outlast this moment.
                _log.warning("cannot fetch jobs, trying again", queue=queue, reason=str(error.__cause__))
                await pause(self._stopping, _AGAIN_SECONDS)
                continue
            # The engine forgets what it heard while it fetched; a job enqueued in that moment would wait for a poll.
            if job is not None or heard == self._heard[queue]:
                return job
        return None

    async def _fetch_through_gate(self, queue: str, worker_id: int) -> jobs.Job | None:
        if self._gate is None:
            return await self._fetch(queue, worker_id)
        job = None
        if self._gate.take():
            try:
                job = await self._fetch(queue, worker_id)
            finally:
                if job is None:
                    self._gate.give_back()
        return job

    async def _fetch(self, queue: str, worker_id: int) -> jobs.Job | None:
        claim_id = str(uuid.uuid4())
        # Held before it is in the database, so that a heartbeat does not take it for one that was lost.
        self._held[claim_id] = worker_id
        rows: list[dict[str, Any]] = []
        try:
            rows = await self.connector.execute_query_all_async(
                query=_SQL["fetch_yielding" if queue in _YIELDS_TO else "fetch"],
                queue=queue,
                before=_YIELDS_TO.get(queue),
                kinds=self._kinds,
                worker_id=worker_id,
                claim_id=claim_id,
            )
        finally:
            if not rows:
                self._held.pop(claim_id, None)
        if not rows:
            return None
        self._of_job[rows[0]["id"]] = Claim(rows[0]["id"], claim_id, attempt=rows[0]["attempts"])
        return jobs.Job.from_row(rows[0])

    async def finish_job(self, job: jobs.Job, status: jobs.Status, delete_job: bool) -> None:
        """Nothing: the handler settled the job under its claim, or the job is to be rescued."""

    async def retry_job(
        self,
        job: jobs.Job,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Nothing, for the same reason."""

    async def heartbeat(self, worker_ids: Sequence[int]) -> set[int]:
        """Renew the leases of this process's workers; returns those that are not taken for dead.

        Jobs that a worker is on record for but that this process does not hold (the answer to a fetch was lost, or
        settling failed) lose their worker, so that rescue finds them.
        """
        ids = list(worker_ids)
        known = await self.connector.execute_query_all_async(query=_SQL["heartbeat"], worker_ids=ids)
        rows = await self.connector.execute_query_all_async(query=_SQL["on_record"], worker_ids=ids)
        # Compared only now: a claim is held before it is on record, but many may come while the database is asked.
        lost = [str(row["claim_id"]) for row in rows if str(row["claim_id"]) not in self._held]
        if lost:
            await self.connector.execute_query_async(query=_SQL["disown"], claim_ids=lost)
        return {row["id"] for row in known}

    async def update_heartbeat(self, worker_id: int) -> None:
        """Nothing: the runner renews all leases of the process at once."""

    async def live_claims(self, claim_ids: Collection[str]) -> set[str]:
        """Which of these claims are not void: cancelled, or rescued while this process was away."""
        rows = await self.connector.execute_query_all_async(query=_SQL["live_claims"], claim_ids=list(claim_ids))
        return {str(row["claim_id"]) for row in rows}

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Listen until cancelled, through any loss of the connection."""
        queues = list(queues or ())

        async def hear(*, channel: str, notification: jobs.Notification) -> None:
            self._heard.update(queues)
            await on_notification(channel=channel, notification=notification)

        while True:
            try:
                await super().listen_for_jobs(on_notification=hear, queues=queues)
            except exceptions.ConnectorException as error:
                let_cancellation_pass(error)
                _log.warning("not listening for jobs, polling meanwhile", queues=queues, reason=str(error.__cause__))
            await asyncio.sleep(_AGAIN_SECONDS)


async def pause(stopping: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until it is time to stop."""
    try:
        await asyncio.wait_for(stopping.wait(), timeout=seconds)
    except TimeoutError:
        return
