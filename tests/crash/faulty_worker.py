"""A worker in which something goes wrong at a named boundary: `python -m tests.crash.faulty_worker`.

It is the real worker over the real platform. Only the ports that its stages see are wrapped, and each crossing of one
is a boundary: `encode.store.put_file.before`, `package.commit.2.after`, `stitch.job.before`. The environment says what
happens:

- `VODPRESS_TEST_TRACE`: a file to which every boundary is written when it is crossed;
- `VODPRESS_TEST_FAULT`: what happens there, a name of `FAULTS`;
- `VODPRESS_TEST_AT`: the boundaries at which it happens, once at each, separated by spaces.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import psutil
import psycopg

from vodpress.bootstrap import Platform, open_platform
from vodpress.cli.running import stop_on_signals
from vodpress.domain.failure import Failure
from vodpress.domain.job import Claim
from vodpress.executor import Executor
from vodpress.settings import Settings, load_settings
from vodpress.telemetry import configure_logging

POLL_SECONDS = 0.002
kind_now: ContextVar[str] = ContextVar("kind_now")
commits: ContextVar[list[int]] = ContextVar("commits")


class ShortWrite(Exception):
    """The storage writes half of it, and says that all went well."""


class Faults:
    """What happens at boundaries, and the trace of them."""

    def __init__(self, settings: Settings) -> None:
        self._trace = Path(os.environ["VODPRESS_TEST_TRACE"])
        self._fault = os.environ.get("VODPRESS_TEST_FAULT", "")
        self._at = set(os.environ.get("VODPRESS_TEST_AT", "").split())
        self._conninfo = settings.database_url or ""
        self._hunts: set[asyncio.Task[None]] = set()

    async def cross(self, name: str) -> None:
        """Pass a boundary, outside any job without a word."""
        kind = kind_now.get("")
        if not kind:
            return
        name = f"{kind}.{name}"
        self.note(name)
        if name in self._at:
            self._at.remove(name)
            self.note(f"FAULT {self._fault} {name}")
            await FAULTS[self._fault](self)

    async def kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    async def terminate(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    async def kill_tool(self) -> None:
        self._hunt(signal.SIGKILL)

    async def hang_tool(self) -> None:
        self._hunt(signal.SIGSTOP)

    def _hunt(self, number: signal.Signals) -> None:
        """Wait for the next program that is started, and send it a signal."""

        async def hunt() -> None:
            while True:
                for child in psutil.Process().children():
                    with suppress(psutil.Error):
                        if child.name().startswith("ffmpeg") and child.status() != psutil.STATUS_ZOMBIE:
                            child.send_signal(number)
                            self.note(f"SENT {number.name}")
                            return
                await asyncio.sleep(POLL_SECONDS)

        task = asyncio.ensure_future(hunt())
        self._hunts.add(task)
        task.add_done_callback(self._hunts.discard)

    async def cut_database(self) -> None:
        """End every connection that this process has."""
        async with await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True) as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = %s",
                [f"faulty-{os.getpid()}"],
            )

    async def storage_fails(self) -> None:
        raise Failure("storage_unavailable", "The storage did not answer.")

    async def storage_hangs(self) -> None:
        await asyncio.Event().wait()

    async def storage_lies(self) -> None:
        raise ShortWrite

    async def disk_full(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def note(self, line: str) -> None:
        """Write a line to the trace."""
        with self._trace.open("a") as file:
            file.write(line + "\n")


FAULTS: Mapping[str, Callable[[Faults], Awaitable[None]]] = {
    "kill": Faults.kill,
    "stop": Faults.stop,
    "terminate": Faults.terminate,
    "kill_tool": Faults.kill_tool,
    "hang_tool": Faults.hang_tool,
    "cut_database": Faults.cut_database,
    "storage_fails": Faults.storage_fails,
    "storage_hangs": Faults.storage_hangs,
    "storage_lies": Faults.storage_lies,
    "disk_full": Faults.disk_full,
}


class Wrapped:
    """A port whose coroutines are boundaries."""

    def __init__(self, name: str, port: Any, faults: Faults) -> None:
        self._name, self._port, self._faults = name, port, faults

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._port, name)
        if not asyncio.iscoroutinefunction(member):
            return member

        async def cross(*given: Any, **more: Any) -> Any:
            try:
                await self._faults.cross(f"{self._name}.{name}.before")
            except ShortWrite:
                await self._write_half(*given)
                return None
            result = await member(*given, **more)
            await self._faults.cross(f"{self._name}.{name}.after")
            return result

        return cross

    async def _write_half(self, key: str, content: Path | bytes) -> None:
        data = content if isinstance(content, bytes) else content.read_bytes()
        await self._port.put_bytes(key, data[: len(data) // 2])


class WrappedWork:
    """The unit of work, whose commits are boundaries; each transaction of a job has its number."""

    def __init__(self, work: Any, faults: Faults) -> None:
        self._work, self._faults = work, faults

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Any]:
        counter = commits.get([0])
        counter[0] += 1
        number = counter[0]
        async with self._work.begin() as transaction:
            yield transaction
            await self._faults.cross(f"commit.{number}.before")
        await self._faults.cross(f"commit.{number}.after")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


async def work(platform: Platform, faults: Faults, stop: asyncio.Event) -> None:
    services = platform.services
    ports: dict[str, Any] = {
        name: Wrapped(name, getattr(services, name), faults) for name in ("store", "transcoder", "packager", "prober")
    }
    wrapped: Any = WrappedWork(platform.work, faults)
    executor = Executor(
        dataclasses.replace(services, work=wrapped, **ports),
        platform.schedules,
        chance=lambda: 0.5,
        deadline_seconds=platform.settings.job_deadline_seconds,
    )

    async def execute(kind: str, claim: Claim, args: Mapping[str, Any]) -> None:
        kind_now.set(kind)
        commits.set([0])
        await faults.cross("job.before")
        await executor.run(kind, claim, args)
        await faults.cross("job.after")

    await platform.work_on_jobs(stop, execute=execute)


def print_tasks() -> None:
    """Say what everything in this process waits for: of use when it does not end."""
    for task in asyncio.all_tasks():
        task.print_stack()


async def main() -> None:
    os.environ["PGAPPNAME"] = f"faulty-{os.getpid()}"  # to tell its connections from those of others
    settings = load_settings()
    configure_logging(settings.log_level, settings.log_format)
    stop = asyncio.Event()
    stop_on_signals(stop)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print_tasks)
    faults = Faults(settings)
    async with open_platform(settings) as platform:
        faults.note("READY")
        await work(platform, faults, stop)


if __name__ == "__main__":
    asyncio.run(main())
