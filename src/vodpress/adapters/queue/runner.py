"""Runs jobs in this process: one engine worker a queue, leases renewed for all of them, and an orderly end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import structlog
from procrastinate import App, JobContext
from procrastinate.exceptions import ConnectorException
from procrastinate.worker import Worker
from psycopg import AsyncConnection
from psycopg import Error as PsycopgError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from vodpress.adapters.db.session import let_cancellation_pass
from vodpress.adapters.queue.engine import AttentiveConnector, ClaimingJobManager, Gate, Serving, pause, serving
from vodpress.adapters.queue.settle import hand_back
from vodpress.domain.failure import Failure, LeaseLost, VodpressError
from vodpress.domain.job import QUEUE_OF, Claim, Queue

Execute = Callable[[str, Claim, Mapping[str, Any]], Awaitable[None]]
"""Runs one claimed job to its settlement."""

Pool = AsyncConnectionPool[AsyncConnection[Any]]

_BEATS_A_LEASE = 4
_AGAIN_SECONDS = 1.0
# The runner renews leases and looks for void claims itself: the engine does the former in a task that nobody watches,
# and the latter by job, not by claim.
_NEVER_SECONDS = 10.0**9

_log = structlog.get_logger(__name__)


class QueueRunner:
    """The workers of one process, for one run.

    Args:
        pool: connections for fetching and settling; each queue takes one more of its own for listening.
        concurrency: how many jobs of each queue at once; a queue that is not in it is not served.
        node: this machine's name, on record with what it serves.
        gate: asked before each job that is taken.
        lease_seconds: after so long without a heartbeat others take this process's jobs, and it stops them itself.
        grace_seconds: how long running jobs may go on after a stop before they are handed back.
        poll_seconds: how often to look for jobs whose time has come, and for what a notification did not tell.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        execute: Execute,
        concurrency: Mapping[Queue, int],
        lease_seconds: float,
        grace_seconds: float,
        poll_seconds: float = 1.0,
        node: str = "localhost",
        gate: Gate | None = None,
    ) -> None:
        self._pool = pool
        self._execute = execute
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._grace_seconds = grace_seconds
        self._poll_seconds = poll_seconds
        self._node = node
        self._stopping = asyncio.Event()
        self._connector = AttentiveConnector()
        self._app = App(connector=self._connector)
        self._manager = ClaimingJobManager(self._connector, [str(kind) for kind in QUEUE_OF], self._stopping, gate)
        self._app.job_manager = self._manager
        self._workers: dict[Queue, Worker] = {}
        self._handlers: dict[str, asyncio.Task[Any]] = {}
        for kind in QUEUE_OF:
            self._app.task(name=str(kind), pass_context=True)(self._handle)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then take nothing new, and finish or hand back what runs."""
        async with self._app.open_async(self._pool), asyncio.TaskGroup() as group:
            beating = group.create_task(self._beat())
            try:
                async with asyncio.TaskGroup() as queues:
                    for queue in self._concurrency:
                        queues.create_task(self._serve(queue))
                    queues.create_task(self._stop_on(stop))
            finally:
                beating.cancel()

    async def _stop_on(self, stop: asyncio.Event) -> None:
        try:
            await stop.wait()
        finally:
            self._stopping.set()
            for worker in self._workers.values():
                worker.stop()

    async def _serve(self, queue: Queue) -> None:
        """Keep a worker on the queue: one that lost the database or was taken for dead is followed by another."""
        while not self._stopping.is_set():
            worker = self._workers[queue] = Worker(
                self._app,
                queues=[str(queue)],
                name=str(queue),
                concurrency=self._concurrency[queue],
                fetch_job_polling_interval=self._poll_seconds,
                abort_job_polling_interval=_NEVER_SECONDS,
                shutdown_graceful_timeout=self._grace_seconds,
                install_signal_handlers=False,
                update_heartbeat_interval=_NEVER_SECONDS,
                stalled_worker_timeout=self._lease_seconds,
            )
            serving.set(Serving(str(queue), self._concurrency[queue], self._node))
            try:
                await worker.run()
            except (ConnectorException, PsycopgError, PoolTimeout) as error:
                let_cancellation_pass(error)
                _log.warning("worker lost the database", queue=str(queue), reason=str(error.__cause__ or error))
            await pause(self._stopping, _AGAIN_SECONDS)

    async def _handle(self, context: JobContext, /, **args: Any) -> None:
        """One job. The executor settles it; what it could not settle is handed back, or left to be rescued."""
        if context.job.id is None:
            raise LeaseLost("the engine gave a job without an id")
        claim = self._manager.claim_of(context.job.id)
        task = asyncio.current_task()
        if task is not None:
            self._handlers[claim.claim_id] = task
        try:
            await self._execute(context.job.task_name, claim, args)
        except asyncio.CancelledError:
            await _to_its_end(self._hand_back(claim))
            raise
        except VodpressError as error:
            _log.warning("job not settled", job=claim.job_id, reason=str(error))
            if isinstance(error, Failure) and error.code == "database_unavailable":
                # Not at once: what fails every time would otherwise go round as fast as it can.
                await _to_its_end(self._hand_back(claim, after_seconds=_AGAIN_SECONDS))
        finally:
            self._handlers.pop(claim.claim_id, None)
            self._manager.let_go(claim)

    async def _hand_back(self, claim: Claim, *, after_seconds: float = 0.0) -> None:
        try:
            async with asyncio.timeout(self._lease_seconds):
                await asyncio.sleep(after_seconds)
                async with self._pool.connection() as connection, connection.transaction():
                    await hand_back(connection, claim)
            _log.info("job handed back", job=claim.job_id)
        except LeaseLost:
            _log.info("job was settled or taken by another", job=claim.job_id)
        except (PsycopgError, PoolTimeout, TimeoutError) as error:
            _log.warning("job could not be handed back, it will be rescued", job=claim.job_id, reason=str(error))

    async def _beat(self) -> None:
        """Renew the leases, and stop the jobs whose claims are void.

        Without the database for as long as a lease lasts, others have all of them.
        """
        renewed = time.monotonic()
        void: set[str] = set()
        while True:
            await asyncio.sleep(self._lease_seconds / _BEATS_A_LEASE)
            asked = time.monotonic()
            workers = {worker.worker_id: worker for worker in self._workers.values() if worker.worker_id is not None}
            handlers = dict(self._handlers)
            try:
                async with asyncio.timeout(self._lease_seconds / 2):
                    known = await self._manager.heartbeat(list(workers))
                    live = await self._manager.live_claims(handlers)
            except (ConnectorException, PoolTimeout, TimeoutError) as error:
                let_cancellation_pass(error)
                _log.warning("no heartbeat", reason=str(error.__cause__ or error))
                if time.monotonic() - renewed > self._lease_seconds:
                    self._cancel(handlers, "the lease ended while the database was away")
                continue
            renewed = asked
            for worker_id in workers.keys() - known:
                _log.warning("worker was taken for dead, a new one starts", worker=worker_id)
                workers[worker_id].stop()
            lost = {claim for claim in handlers if self._manager.worker_of(claim) not in known}
            # Void at two looks: at one, it may be that the handler has settled the job and is about to end.
            seen, void = void, set(handlers) - live
            self._cancel({claim: handlers[claim] for claim in lost | (void & seen)}, "its claim is void")

    def _cancel(self, handlers: Mapping[str, asyncio.Task[Any]], reason: str) -> None:
        for claim_id, task in handlers.items():
            if claim_id in self._handlers and not task.cancelling():  # once: it may be cleaning up
                _log.warning("job stopped", reason=reason)
                task.cancel()


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await `work`, however often this task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    task.result()
