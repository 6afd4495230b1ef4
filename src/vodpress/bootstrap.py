"""The only place where adapters meet stages: from settings to a platform that works."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vodpress.adapters.db.unit_of_work import PostgresUnitOfWork
from vodpress.adapters.ffmpeg.binaries import find_ffmpeg, find_ffprobe
from vodpress.adapters.ffmpeg.limits import RunLimits
from vodpress.adapters.ffmpeg.probe import FFmpegProber, SourceLimits
from vodpress.adapters.ffmpeg.transcoder import FFmpegTranscoder
from vodpress.adapters.packager.binary import find_packager
from vodpress.adapters.packager.packager import ShakaPackager
from vodpress.adapters.queue.jobs import QueueJobs
from vodpress.adapters.queue.rescue import Rescuer
from vodpress.adapters.queue.runner import QueueRunner
from vodpress.adapters.storage import open_store
from vodpress.database import Pool, open_database, open_pool
from vodpress.domain.failure import InvalidRequest
from vodpress.domain.job import Claim, JobKind, Queue
from vodpress.domain.retry import Schedule
from vodpress.executor import Executor
from vodpress.node import Node
from vodpress.ports import ObjectStore
from vodpress.settings import Settings
from vodpress.stages.services import Policies, Services

_CONTENT_ATTEMPTS = 3  # of a slice or a rendition; a source that cannot be read is not tried again
_SPARE_CONNECTIONS = 4

Execute = Callable[[str, Claim, Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class MediaTools:
    """The programs that look into and make media."""

    prober: FFmpegProber
    transcoder: FFmpegTranscoder
    packager: ShakaPackager


@dataclass(frozen=True, slots=True)
class Platform:
    """An open installation. Jobs run only while `work_on_jobs` does."""

    settings: Settings
    conninfo: str
    pool: Pool
    work: PostgresUnitOfWork
    services: Services
    executor: Executor
    schedules: Mapping[JobKind, Schedule]
    node: Node

    @property
    def default_concurrency(self) -> dict[Queue, int]:
        """Jobs of each queue at once, from the settings."""
        settings = self.settings
        return {
            Queue.INGEST: settings.ingest_jobs,
            Queue.ENCODE: settings.encode_jobs,
            Queue.ENCODE_BULK: settings.bulk_jobs,
            Queue.LIGHT: settings.light_jobs,
        }

    async def work_on_jobs(
        self,
        stop: asyncio.Event,
        *,
        execute: Execute | None = None,
        concurrency: Mapping[Queue, int] | None = None,
    ) -> None:
        """Run workers and rescue until `stop` is set, then finish or hand back what runs.

        Args:
            concurrency: queues to serve, and how many jobs of each at once; by default all, as the settings say.
            execute: stands around `Executor.run`, which it calls; for those who want to see each job pass.
        """
        settings = self.settings
        runner = QueueRunner(
            self.pool,
            execute=execute or self.executor.run,
            concurrency=concurrency or self.default_concurrency,
            node=settings.node,
            gate=self.node,
            lease_seconds=settings.lease_seconds,
            grace_seconds=settings.grace_seconds,
        )
        rescuer = Rescuer(
            self.work.begin,
            schedules=self.schedules,
            run_out=self.executor.run_out,
            lease_seconds=settings.lease_seconds,
        )
        async with asyncio.TaskGroup() as group:
            rescue = group.create_task(rescuer.run())
            try:
                await runner.run(stop)
            finally:
                rescue.cancel()


def media_limits(settings: Settings) -> RunLimits:
    """How long media tools may run, from the settings."""
    return RunLimits(stall_seconds=settings.stall_seconds, ceiling_factor=settings.ceiling_factor, nice=settings.nice)


async def open_media(settings: Settings) -> MediaTools:
    """Find the programs and learn their versions.

    Raises:
        Failure: `tool_missing`.
    """
    limits = media_limits(settings)
    ffmpeg, ffprobe, packager = await asyncio.gather(
        find_ffmpeg(settings.ffmpeg), find_ffprobe(settings.ffprobe), find_packager(settings.packager)
    )
    sources = SourceLimits(
        max_duration_seconds=settings.max_duration_seconds,
        max_pixels=settings.max_pixels,
        max_frame_rate=settings.max_frame_rate,
    )
    return MediaTools(
        prober=FFmpegProber(ffprobe=ffprobe, ffmpeg=ffmpeg, sources=sources, run=limits),
        transcoder=FFmpegTranscoder(ffmpeg=ffmpeg, run=limits),
        packager=ShakaPackager(packager, ceiling_factor=settings.ceiling_factor, nice=settings.nice),
    )


def open_storage(settings: Settings) -> ObjectStore:
    """The object storage that the settings name. Blocking where it is a local folder."""
    return open_store(
        settings.storage_location,
        endpoint=settings.s3_endpoint,
        region=settings.s3_region,
        access_key_id=settings.s3_access_key_id,
        secret_access_key=settings.s3_secret_access_key,
    )


@asynccontextmanager
async def open_records(settings: Settings) -> AsyncIterator[PostgresUnitOfWork]:
    """Only the database: for commands that look at or change records."""
    async with open_database(settings) as conninfo, open_pool(conninfo, connections=2) as pool:
        yield PostgresUnitOfWork(pool, QueueJobs)


@asynccontextmanager
async def open_platform(settings: Settings) -> AsyncIterator[Platform]:
    """Database, storage and media tools, ready to take and to do work.

    Raises:
        Failure: `tool_missing`, `database_unavailable`, `storage_unavailable`.
        InvalidRequest: a setting that cannot be used as it is.
    """
    media = asyncio.ensure_future(open_media(settings))
    try:
        store = await asyncio.to_thread(open_storage, settings)
        _make_scratch(settings.scratch)
        async with (
            open_database(settings) as conninfo,
            open_pool(conninfo, connections=_connections(settings), idle_seconds=settings.lease_seconds) as pool,
        ):
            work = PostgresUnitOfWork(pool, QueueJobs)
            services = _services(settings, work, store, await media)
            schedules = _schedules(settings)
            node = Node(settings.node, work, clock=time.monotonic)
            yield Platform(
                settings=settings,
                conninfo=conninfo,
                pool=pool,
                work=work,
                services=services,
                executor=Executor(
                    services,
                    schedules,
                    chance=random.random,
                    on_end=node.ended,
                    deadline_seconds=settings.job_deadline_seconds,
                ),
                schedules=schedules,
                node=node,
            )
    finally:
        media.cancel()
        await asyncio.gather(media, return_exceptions=True)


def _make_scratch(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(
            "home_unusable",
            f"Scratch files cannot lie in {folder}: {error.strerror}. Set VODPRESS_SCRATCH_DIR to another folder.",
        ) from error


def _connections(settings: Settings) -> int:
    # One for listening, and one that is just being asked, for each queue; the rest are shared by the jobs.
    return settings.encode_jobs + settings.bulk_jobs + settings.ingest_jobs + settings.light_jobs + _SPARE_CONNECTIONS


def _services(settings: Settings, work: PostgresUnitOfWork, store: ObjectStore, media: MediaTools) -> Services:
    return Services(
        work=work,
        store=store,
        prober=media.prober,
        transcoder=media.transcoder,
        packager=media.packager,
        scratch=settings.scratch,
        policies=Policies(
            disk_reserve_bytes=settings.disk_reserve_bytes,
            decode_check=settings.decode_check,
            verify_decode=settings.verify_decode,
        ),
        now=_now,
        node=settings.node,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _schedules(settings: Settings) -> Mapping[JobKind, Schedule]:
    delays = settings.media_retry_delays_seconds
    media = Schedule(delays, jitter=settings.retry_jitter, content_attempts=_CONTENT_ATTEMPTS)
    last = delays[-1:] or (0.0,)
    waits = (delays + last * settings.ingest_attempts)[: settings.ingest_attempts - 1]
    ingest = Schedule(waits, jitter=settings.retry_jitter)
    return {kind: ingest if kind is JobKind.INGEST else media for kind in JobKind}
