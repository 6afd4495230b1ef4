"""Blocking storage work, kept off the event loop and stopped when its caller is cancelled.

obstore's own coroutines are not used: they settle from Tokio threads that may still hold Python objects while the
interpreter shuts down, which ends a short-lived process with SIGABRT now and then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TypeVar

Result = TypeVar("Result")

_POOL = ThreadPoolExecutor(max_workers=32, thread_name_prefix="storage")
_CLEANUP_SECONDS = 5.0
_STOP_POLL_SECONDS = 0.2
_BLOCK_BYTES = 1024 * 1024


class Stopped(BaseException):
    """The caller of this work was cancelled. No `Exception`, so that nothing takes it for a failed write."""


class Stop(threading.Event):
    """Tells work in a thread that nobody waits for it any more."""

    def check(self) -> None:
        """Raise `Stopped` when the caller is gone. Call it between steps of long work."""
        if self.is_set():
            raise Stopped


async def run(work: Callable[[Stop], Result]) -> Result:
    """Run `work` in a thread.

    When the caller is cancelled, `work` is told by its `Stop` and given a few seconds to remove what it half made.
    """
    stop = Stop()
    job = _POOL.submit(work, stop)
    future = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        job.cancel()  # has an effect only while it waits for a thread
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        await asyncio.wait([future], timeout=_CLEANUP_SECONDS)
        raise


async def in_blocks(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The same bytes in blocks of about a megabyte, so that a hop to a thread is worth it."""
    block = bytearray()
    async for chunk in chunks:
        block += chunk
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    if block:
        yield bytes(block)


class Handover:
    """Passes the blocks of an async iterator to a thread that reads them; at most two wait in between.

    One task of the event loop does all the reading from `chunks`, as generators that hold a timeout need.
    """

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self.bytes = 0
        self._chunks = chunks
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(maxsize=2)
        self._feeder = self._loop.create_task(self._feed())
        self.error: BaseException | None = None

    async def _feed(self) -> None:
        try:
            async with aclosing(in_blocks(self._chunks)) as blocks:
                async for block in blocks:
                    await self._queue.put(block)
        except Exception as error:  # noqa: BLE001 - it is raised again in the reading thread
            await self._queue.put(error)
        else:
            await self._queue.put(None)

    def read(self, stop: Stop) -> Iterator[bytes]:
        """The blocks, for use in the thread. Raises what the async iterator raised, which `error` then holds."""
        while (item := self._next(stop)) is not None:
            if isinstance(item, BaseException):
                self.error = item
                raise item
            self.bytes += len(item)
            yield item

    def _next(self, stop: Stop) -> bytes | BaseException | None:
        waiting = asyncio.run_coroutine_threadsafe(self._queue.get(), self._loop)
        while True:
            try:
                return waiting.result(timeout=_STOP_POLL_SECONDS)
            except TimeoutError:
                if stop.is_set():
                    waiting.cancel()
                    raise Stopped from None

    async def close(self) -> None:
        """Stop reading from the async iterator."""
        self._feeder.cancel()
        await asyncio.wait([self._feeder])
