"""The only place that starts programs: own process group, bounded output, stall and ceiling clocks, no orphans.

A tool is over when it has exited, or when its whole process group has been killed because

- its progress stood still for `stall_seconds` (it hangs),
- it ran longer than `ceiling_seconds`,
- the caller was cancelled (shutdown, lease lost), or
- the caller died (the kernel kills it then, where the platform can: Linux `PR_SET_PDEATHSIG`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import structlog

from vodpress.adapters.kernel import die_with_parent, memory_kills
from vodpress.domain.failure import Failure

_log = structlog.get_logger(__name__)

_STDERR_LINES_KEPT = 40
_LINE_BYTES_LIMIT = 1 << 20

cpu_meter: ContextVar[Callable[[float], None] | None] = ContextVar("cpu_meter", default=None)
"""Where it is set, it is told the CPU seconds of every tool that ends in this context."""

OnLine = Callable[[bytes], Awaitable[bool | None]]
"""Receives each line of standard output; returning False says that it is no sign of progress."""


@dataclass(frozen=True, slots=True)
class ToolExit:
    """How a tool ended.

    Attributes:
        status: exit status, or `None` when a signal ended it.
        signal_number: the signal that ended it, or `None`.
        stderr_tail: its last lines of standard error.
        cpu_seconds: user and system time of the tool and the children it waited for.
        peak_memory_bytes: largest resident set of the tool.
        kernel_killed_for_memory: whether the kernel's out-of-memory killer struck while the tool ran (Linux).
    """

    tool: str
    status: int | None
    signal_number: int | None
    stderr_tail: str
    cpu_seconds: float
    wall_seconds: float
    peak_memory_bytes: int
    kernel_killed_for_memory: bool

    @property
    def succeeded(self) -> bool:
        """Whether the exit status was 0. That alone proves nothing about the output."""
        return self.status == 0

    def describe(self) -> str:
        """Exit and standard error for the operator."""
        ending = f"exit status {self.status}" if self.status is not None else f"signal {self.signal_number}"
        return f"{self.tool} ended with {ending} after {self.wall_seconds:.1f} s\n{self.stderr_tail}".rstrip()


class _Clock:
    """Time since the last sign of progress."""

    def __init__(self) -> None:
        self.started = self.progressed = time.monotonic()

    def touch(self) -> None:
        self.progressed = time.monotonic()


async def run_tool(
    argv: Sequence[str | os.PathLike[str]],
    *,
    tool: str,
    on_line: OnLine | None = None,
    stall_seconds: float = 60.0,
    ceiling_seconds: float | None = None,
    cwd: Path | None = None,
    nice: int = 0,
) -> ToolExit:
    """Run a program to its end.

    Args:
        argv: the program and its arguments; never a shell line.
        tool: its name for messages.
        on_line: called with every line of standard output. Without it the stall clock does not run and standard
            output is discarded.
        stall_seconds: how long progress may stand still.
        ceiling_seconds: how long it may run at all.
        nice: added to the program's niceness.

    Raises:
        Failure: `tool_missing`, `tool_hung`, `disk_full` or `out_of_memory`, when it could not be started or was ended
            by this function. A program that ended by itself, however badly, is returned.
    """
    clock = _Clock()
    killed_before = memory_kills()
    child = _spawn(argv, tool=tool, capture=on_line is not None, cwd=cwd, nice=nice)
    waiting = asyncio.get_running_loop().run_in_executor(None, _wait, child)
    stderr: deque[bytes] = deque(maxlen=_STDERR_LINES_KEPT)
    work = asyncio.ensure_future(_supervise(child, waiting, stderr, on_line, clock))
    watch = asyncio.ensure_future(
        _watch(clock, stall_seconds=stall_seconds if on_line else None, ceiling_seconds=ceiling_seconds)
    )
    try:
        await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Failure("tool_hung", f"{tool} was ended: {watch.result()}.", detail=_text(stderr))
        await work
    finally:
        watch.cancel()
        work.cancel()
        _kill_group(child)
        status, usage = await _reap(waiting)
        await asyncio.gather(work, watch, return_exceptions=True)
        if (meter := cpu_meter.get()) is not None:
            meter(usage.ru_utime + usage.ru_stime)
    ended = ToolExit(
        tool=tool,
        status=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        signal_number=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        stderr_tail=_text(stderr),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        wall_seconds=time.monotonic() - clock.started,
        peak_memory_bytes=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        kernel_killed_for_memory=os.WIFSIGNALED(status) and memory_kills() > killed_before,
    )
    _log.debug(
        "tool ended",
        tool=tool,
        status=ended.status,
        signal=ended.signal_number,
        cpu_seconds=round(ended.cpu_seconds, 3),
        wall_seconds=round(ended.wall_seconds, 3),
        peak_memory_bytes=ended.peak_memory_bytes,
    )
    return ended


async def _supervise(
    child: subprocess.Popen[bytes],
    waiting: asyncio.Future[tuple[int, resource.struct_rusage]],
    stderr: deque[bytes],
    on_line: OnLine | None,
    clock: _Clock,
) -> None:
    """Read both pipes to their ends, then wait for the exit."""
    readers = []
    if child.stderr is not None:
        readers.append(asyncio.ensure_future(_collect(child.stderr, stderr)))
    if child.stdout is not None and on_line is not None:
        readers.append(asyncio.ensure_future(_follow(child.stdout, on_line, clock)))
    try:
        await asyncio.gather(*readers)
        await asyncio.shield(waiting)
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


def _spawn(
    argv: Sequence[str | os.PathLike[str]], *, tool: str, capture: bool, cwd: Path | None, nice: int
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [os.fspath(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=_before_exec(nice),  # noqa: PLW1509 - only plain system calls, see there
        )
    except (FileNotFoundError, PermissionError) as error:
        raise Failure("tool_missing", f"{tool} cannot be started: {error.strerror} ({argv[0]}).") from error
    except OSError as error:
        code = {errno.ENOMEM: "out_of_memory", errno.ENOSPC: "disk_full"}.get(error.errno or 0, "tool_crashed")
        raise Failure(code, f"{tool} cannot be started: {error.strerror}.") from error


def _before_exec(nice: int) -> Callable[[], None]:
    # Runs in the child between fork and exec: only plain system calls, nothing that may need a lock.
    def prepare() -> None:
        die_with_parent()
        if nice:
            os.nice(nice)

    return prepare


def _wait(child: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage]:
    # While the leader is an unreaped zombie its process group id cannot be reused, so stragglers of the group can be
    # ended without hitting a stranger.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    _kill_group(child)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return status, usage


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


async def _reap(
    waiting: asyncio.Future[tuple[int, resource.struct_rusage]],
) -> tuple[int, resource.struct_rusage]:
    """Wait for the end of a killed child, also when cancelled once more meanwhile."""
    cancelled = False
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return waiting.result()


async def _lines(stream: IO[bytes]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_BYTES_LIMIT)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    try:
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if end.partial:
                    yield end.partial
                return
            except asyncio.LimitOverrunError as long:
                line = await reader.readexactly(long.consumed)
            yield line.rstrip(b"\r\n")
    finally:
        transport.close()


async def _collect(stream: IO[bytes], kept: deque[bytes]) -> None:
    async for line in _lines(stream):
        kept.append(line[:2000])


async def _follow(stream: IO[bytes], on_line: OnLine, clock: _Clock) -> None:
    async for line in _lines(stream):
        if await on_line(line) is not False:
            clock.touch()


async def _watch(clock: _Clock, *, stall_seconds: float | None, ceiling_seconds: float | None) -> str:
    """Return, with the reason, when the tool has to be ended."""
    while True:
        now = time.monotonic()
        left = [float("inf")]
        if stall_seconds is not None:
            left.append(clock.progressed + stall_seconds - now)
        if ceiling_seconds is not None:
            left.append(clock.started + ceiling_seconds - now)
        if min(left) <= 0:
            still = now - clock.progressed
            return (
                f"no progress for {still:.0f} s"
                if stall_seconds and still >= stall_seconds
                else (f"it ran longer than its ceiling of {ceiling_seconds:.0f} s")
            )
        await asyncio.sleep(min(*left, 3600.0) if len(left) > 1 else 3600.0)


def _text(lines: deque[bytes]) -> str:
    return b"\n".join(lines).decode(errors="replace")
