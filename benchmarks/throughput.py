"""Jobs a second with one and two worker processes, against the bare engine; rescue time; what the guards cost a job."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from benchmarks.homes import temporary_folder
from vodpress.adapters.db.embedded import EmbeddedPostgres
from vodpress.adapters.db.migrate import migrate
from vodpress.adapters.db.unit_of_work import PostgresUnitOfWork
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.adapters.queue.rescue import Rescuer
from vodpress.adapters.queue.runner import QueueRunner
from vodpress.database import open_pool
from vodpress.domain.job import Claim, JobKind, JobRequest, Queue
from vodpress.domain.retry import Schedule
from vodpress.telemetry import configure_logging

JOBS = 1000
CONCURRENCY = 4
SHORT_SECONDS = 0.01
_OURS, _BARE = "ours", "bare"
_LEFT = sql.SQL("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')")
_TAKEN = sql.SQL("SELECT count(*) FROM procrastinate_jobs WHERE status <> 'todo'")


def measure() -> Iterator[str]:
    """Every ratio is of rates in this run: more than 1 is quicker than the bare engine."""
    configure_logging("error", "text")
    with temporary_folder() as folder, EmbeddedPostgres(folder / "home") as conninfo:
        databases = {name: _create(conninfo, name) for name in (_OURS, _BARE)}
        migrate(databases[_OURS])
        asyncio.run(_apply_bare_schema(databases[_BARE]))
        per_job = {}
        for seconds, what in ((0.0, "no-op jobs"), (SHORT_SECONDS, f"jobs of {SHORT_SECONDS * 1000:.0f} ms")):
            for workers in (1, 2):
                rates = {name: _rate(name, database, workers, seconds) for name, database in databases.items()}
                per_job[what, workers] = 1 / rates[_OURS] - 1 / rates[_BARE]
                yield (
                    f"queue throughput, {what}, {workers} worker(s): {rates[_OURS]:.0f} a second, "
                    f"{rates[_OURS] / rates[_BARE]:.2f} of the bare engine"
                )
        yield f"guards: {per_job['no-op jobs', 1] * 1000:+.2f} ms a job over the bare engine"
        yield f"rescue: {asyncio.run(_rescue(databases[_OURS])):.2f} ms a job of a dead worker, one after the other"


def _create(conninfo: str, name: str) -> str:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return make_conninfo(conninfo, dbname=name)


async def _apply_bare_schema(conninfo: str) -> None:
    async with _bare_app(conninfo, 0.0).open_async() as app:
        await app.schema_manager.apply_schema_async()


def _rate(name: str, conninfo: str, workers: int, seconds: float) -> float:
    """Jobs a second from the first that is taken to the last that is settled."""
    asyncio.run((_fill if name == _OURS else _fill_bare)(conninfo))
    spawn = multiprocessing.get_context("spawn")
    serve = _serve if name == _OURS else _serve_bare
    processes = [spawn.Process(target=serve, args=(conninfo, seconds)) for _ in range(workers)]
    for process in processes:
        process.start()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        before = _count(connection, _TAKEN)
        while _count(connection, _TAKEN) == before:
            time.sleep(0.002)
        begun = time.perf_counter()
        while _count(connection, _LEFT):
            time.sleep(0.01)
        elapsed = time.perf_counter() - begun
    for process in processes:
        process.join()
    return JOBS / elapsed


def _count(connection: psycopg.Connection[Any], query: sql.SQL) -> int:
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


async def _fill(conninfo: str) -> None:
    begun = time.time_ns()
    requests = [JobRequest(JobKind.PACKAGE, {"asset_id": "a"}, unique_key=f"{begun}:{n}") for n in range(JOBS)]
    async with await AsyncConnection.connect(conninfo) as connection:
        await QueueJobs(connection).enqueue(*requests)


async def _fill_bare(conninfo: str) -> None:
    jobs: list[dict[str, Any]] = [{"asset_id": "a"}] * JOBS
    async with _bare_app(conninfo, 0.0).open_async() as app:
        await app.configure_task("job", queue="light").batch_defer_async(*jobs)


def _serve(conninfo: str, seconds: float) -> None:
    asyncio.run(_run(conninfo, seconds))


async def _run(conninfo: str, seconds: float) -> None:
    stop = asyncio.Event()
    async with open_pool(conninfo, connections=CONCURRENCY + 4) as pool:

        async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
            del kind, args
            await asyncio.sleep(seconds)
            async with pool.connection() as connection, connection.transaction():
                await QueueJobs(connection).complete(claim)

        async def watch() -> None:
            async with pool.connection() as connection:
                while True:
                    row = await (await connection.execute(_LEFT)).fetchone()
                    await connection.commit()
                    if row == (0,):
                        break
                    await asyncio.sleep(0.05)
            stop.set()

        runner = QueueRunner(
            pool, execute=execute, concurrency={Queue.LIGHT: CONCURRENCY}, lease_seconds=30, grace_seconds=5
        )
        await asyncio.gather(runner.run(stop), watch())


def _bare_app(conninfo: str, seconds: float) -> App:
    app = App(connector=PsycopgConnector(conninfo=conninfo, min_size=1, max_size=CONCURRENCY + 4))

    async def job(asset_id: str) -> None:
        del asset_id
        await asyncio.sleep(seconds)

    app.task(name="job")(job)
    return app


def _serve_bare(conninfo: str, seconds: float) -> None:
    async def run() -> None:
        async with _bare_app(conninfo, seconds).open_async() as app:
            await app.run_worker_async(
                queues=["light"], concurrency=CONCURRENCY, wait=False, install_signal_handlers=False
            )

    asyncio.run(run())


async def _rescue(conninfo: str) -> float:
    """Milliseconds a job until all jobs of a worker that died wait for another one."""
    await _fill(conninfo)
    async with open_pool(conninfo, connections=4) as pool:
        async with pool.connection() as connection:
            await connection.execute(
                "UPDATE procrastinate_jobs SET status = 'doing', attempts = 1, claim_id = gen_random_uuid() "
                "WHERE status = 'todo'"
            )
        work = PostgresUnitOfWork(pool, QueueJobs)

        async def give_up(*_: object) -> None:
            raise AssertionError("none has run out")

        schedules = dict.fromkeys(JobKind, Schedule((0.0, 0.0)))
        rescuer = Rescuer(work.begin, schedules=schedules, run_out=give_up, lease_seconds=30)
        begun = time.perf_counter()
        rescued = await rescuer.rescue()
        return (time.perf_counter() - begun) * 1000 / rescued
