"""procrastinate's job manager with our statements in place of its own, where its guarantees are weaker than ours.

It fetches under a new claim and counts the attempt there; it does not settle, for handlers do that in the transaction
of their result; and it goes on listening after a lost connection.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import structlog
from procrastinate import PsycopgConnector, exceptions, jobs
from procrastinate.connector import LISTEN_TIMEOUT, BaseConnector, Notify
from procrastinate.manager import JobManager, NotificationCallback
from psycopg import AsyncConnection

from vodpress.adapters.db.named_sql import load
from vodpress.domain.job import Claim

_SQL = load(__package__, "engine.sql")
_LISTEN_AGAIN_SECONDS = 1.0

_log = structlog.get_logger(__name__)


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
    """

    def __init__(self, connector: BaseConnector, kinds: Sequence[str]) -> None:
        super().__init__(connector)
        self._kinds = list(kinds)
        self._held: dict[str, int] = {}
        self._of_job: dict[int, Claim] = {}
        self._heard: Counter[str] = Counter()

    def claim_of(self, job_id: int) -> Claim:
        """The claim under which this process holds a job."""
        return self._of_job[job_id]

    def let_go(self, claim: Claim) -> None:
        """The handler of this claim has ended, whether or not it could settle the job."""
        self._held.pop(claim.claim_id, None)
        if self._of_job.get(claim.job_id) == claim:
            del self._of_job[claim.job_id]

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> jobs.Job | None:
        """Take the next job of the worker's one queue under a new claim."""
        (queue,) = queues or ()
        claim_id = str(uuid.uuid4())
        # Held before it is in the database, so that a heartbeat in between does not take it for one that was lost.
        self._held[claim_id] = worker_id
        rows: list[dict[str, Any]] = []
        try:
            heard = -1
            # The engine forgets what it heard while it fetched; a job enqueued in that moment would wait for a poll.
            while not rows and heard != self._heard[queue]:
                heard = self._heard[queue]
                rows = await self.connector.execute_query_all_async(
                    query=_SQL["fetch"], queue=queue, kinds=self._kinds, worker_id=worker_id, claim_id=claim_id
                )
        finally:
            if not rows:
                self._held.pop(claim_id, None)
        if not rows:
            return None
        job = jobs.Job.from_row(rows[0])
        self._of_job[rows[0]["id"]] = Claim(rows[0]["id"], claim_id, attempt=rows[0]["attempts"])
        return job

    async def finish_job(self, job: jobs.Job, status: jobs.Status, delete_job: bool) -> None:
        """Nothing: the handler settled the job under its claim, or the job is to be rescued."""

    async def heartbeat(self, worker_ids: Sequence[int]) -> set[int]:
        """Renew the leases of this process's workers; returns those that are not taken for dead."""
        claims = [claim_id for claim_id, worker_id in self._held.items() if worker_id in worker_ids]
        rows = await self.connector.execute_query_all_async(
            query=_SQL["heartbeat"], worker_ids=list(worker_ids), claim_ids=claims
        )
        return {row["worker_id"] for row in rows}

    async def update_heartbeat(self, worker_id: int) -> None:
        """Nothing: the runner renews all leases of the process at once."""

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:
        """Jobs held here whose claim is void: cancelled, or rescued while this process was away."""
        held = list(self._of_job.values())
        rows = await self.connector.execute_query_all_async(
            query=_SQL["live_claims"], claim_ids=[claim.claim_id for claim in held]
        )
        live = {str(row["claim_id"]) for row in rows}
        return [claim.job_id for claim in held if claim.claim_id not in live]

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
                _log.warning("not listening for jobs, polling meanwhile", queues=queues, reason=str(error.__cause__))
            await asyncio.sleep(_LISTEN_AGAIN_SECONDS)
