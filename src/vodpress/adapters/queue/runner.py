"""Runs jobs in this process: one engine worker a queue, leases renewed for all of them, and an orderly end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from procrastinate import App, JobContext
from procrastinate.exceptions import ConnectorException
from procrastinate.worker import Worker
from psycopg import AsyncConnection
from psycopg import Error as PsycopgError
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from vodpress.adapters.queue.engine import AttentiveConnector, ClaimingJobManager
from vodpress.adapters.queue.settle import hand_back
from vodpress.domain.failure import LeaseLost, VodpressError
from vodpress.domain.job import QUEUE_OF, Claim, Queue

Execute = Callable[[str, Claim, Mapping[str, Any]], Awaitable[None]]
"""Runs one claimed job to its settlement."""

Pool = AsyncConnectionPool[AsyncConnection[Any]]

_BEATS_A_LEASE = 4
_AGAIN_SECONDS = 1.0
_NEVER_SECONDS = 10.0**9  # the runner renews leases itself, because the engine stops doing so after a lost connection

_log = structlog.get_logger(__name__)


class QueueRunner:
    """The workers of one process.

    Args:
        pool: connections for fetching and settling; each queue takes one more of its own for listening.
        concurrency: how many jobs of each queue at once; a queue that is not in it is not served.
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
    ) -> None:
        self._pool = pool
        self._execute = execute
        self._concurrency = concurrency
        self._lease_seconds = lease_seconds
        self._grace_seconds = grace_seconds
        self._poll_seconds = poll_seconds
        self._connector = AttentiveConnector()
        self._app = App(connector=self._connector)
        self._manager = ClaimingJobManager(self._connector, [str(kind) for kind in QUEUE_OF])
        self._app.job_manager = self._manager
        self._workers: dict[Queue, Worker] = {}
        self._handlers: dict[str, asyncio.Task[Any]] = {}
        for kind in QUEUE_OF:
            self._app.task(name=str(kind), pass_context=True)(self._handle)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then take nothing new, and finish or hand back what runs."""
        async with self._app.open_async(self._pool):
            beating = asyncio.create_task(self._beat())
            try:
                async with asyncio.TaskGroup() as group:
                    for queue in self._concurrency:
                        group.create_task(self._serve(queue, stop))
                    group.create_task(self._stop_on(stop))
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)

    async def _stop_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        for worker in self._workers.values():
            worker.stop()

    async def _serve(self, queue: Queue, stop: asyncio.Event) -> None:
        """Keep a worker on the queue: one that lost the database or was taken for dead is followed by another."""
        while not stop.is_set():
            worker = self._workers[queue] = Worker(
                self._app,
                queues=[str(queue)],
                name=str(queue),
                concurrency=self._concurrency[queue],
                fetch_job_polling_interval=self._poll_seconds,
                abort_job_polling_interval=self._lease_seconds / _BEATS_A_LEASE,
                shutdown_graceful_timeout=self._grace_seconds,
                install_signal_handlers=False,
                update_heartbeat_interval=_NEVER_SECONDS,
                stalled_worker_timeout=self._lease_seconds,
            )
            try:
                await worker.run()
            except (ConnectorException, PsycopgError, PoolTimeout) as error:
                _log.warning("worker lost the database", queue=str(queue), reason=str(error.__cause__ or error))
            if not stop.is_set():
                await _wait(stop, _AGAIN_SECONDS)

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
            await asyncio.shield(asyncio.ensure_future(self._hand_back(claim)))
            raise
        except VodpressError as error:
            _log.warning("job not settled, it will be rescued", job=claim.job_id, reason=str(error))
        finally:
            self._handlers.pop(claim.claim_id, None)
            self._manager.let_go(claim)

    async def _hand_back(self, claim: Claim) -> None:
        try:
            async with self._pool.connection() as connection, connection.transaction():
                await hand_back(connection, claim)
            _log.info("job handed back", job=claim.job_id)
        except LeaseLost:
            _log.info("job was settled or taken by another", job=claim.job_id)
        except (PsycopgError, PoolTimeout) as error:
            _log.warning("job could not be handed back, it will be rescued", job=claim.job_id, reason=str(error))

    async def _beat(self) -> None:
        """Renew the leases. Without the database for as long as a lease lasts, others have the jobs: stop them here."""
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(self._lease_seconds / _BEATS_A_LEASE)
            workers = {worker.worker_id: worker for worker in self._workers.values() if worker.worker_id is not None}
            try:
                async with asyncio.timeout(self._lease_seconds / 2):
                    known = await self._manager.heartbeat(list(workers))
            except (ConnectorException, PoolTimeout, TimeoutError) as error:
                _log.warning("no heartbeat", reason=str(error.__cause__ or error))
                if time.monotonic() - renewed > self._lease_seconds:
                    self._cancel_handlers("the lease ended while the database was away")
                continue
            renewed = time.monotonic()
            for worker_id, worker in workers.items():
                if worker_id not in known and worker.worker_id == worker_id:
                    _log.warning("worker was taken for dead, a new one starts", worker=worker_id)
                    worker.stop()

    def _cancel_handlers(self, reason: str) -> None:
        for task in self._handlers.values():
            _log.warning("job stopped", reason=reason)
            task.cancel()


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), timeout=seconds)
    except TimeoutError:
        return
