"""A player in a page, as a test drives it. Every wait is for something that the page tells, and has an end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Page

WAIT_SECONDS = 60.0


@dataclass(frozen=True)
class Offer:
    """What a player found in a presentation: its length, and every variant with `width`, `height`, `bandwidth`."""

    duration_seconds: float
    variants: list[dict[str, int]]


@dataclass(frozen=True)
class State:
    """Where playback is. `buffered` has the ranges of each source buffer, by `video` and `audio`, in seconds.

    `strange_seeks` counts seeks that no test asked for: a player that jumped over a hole.
    """

    time: float
    width: int
    height: int
    ended: bool
    audio_bytes: int
    frames: int
    buffered: dict[str, list[list[float]]]
    strange_seeks: int
    faults: list[str]


class Player:
    """hls.js or Shaka Player in one page."""

    def __init__(self, page: Page, base_url: str) -> None:
        self.page = page
        self.base_url = base_url

    async def open(self, name: str, path: str) -> Offer:
        """Load a presentation of the package into `hls.js` or `shaka`."""
        found = await self._do("([name, url]) => open(name, url)", [name, f"{self.base_url}/{path}"])
        return Offer(found["duration"], found["variants"])

    async def force(self, variant: int) -> None:
        """Show one variant from now on; what was buffered of others is thrown away."""
        await self._do("(index) => player.force(index)", variant)

    async def switch_ahead(self, variant: int) -> None:
        """Go over to a variant where the player thinks best, without a break."""
        await self._do("(index) => player.switchAhead(index)", variant)

    async def play_on(self, seconds: float, *, rate: float = 1.0) -> State:
        """Play until the clock of the media has gone on by `seconds`."""
        await self._do("(rate) => { video.playbackRate = rate }", rate)
        return State(**await self._do("(seconds) => playOn(seconds)", seconds))

    async def showing(self, width: int, height: int) -> State:
        """Play until the picture has this size."""
        return State(**await self._do("([width, height]) => showing(width, height)", [width, height]))

    async def seek(self, seconds: float) -> State:
        """Go to a time."""
        return State(**await self._do("(seconds) => seek(seconds)", seconds))

    async def to_the_end(self) -> State:
        """Play until the element says that it has ended."""
        return State(**await self._do("() => toTheEnd()", None))

    async def _do(self, script: str, argument: object) -> Any:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                return await self.page.evaluate(script, argument)
        except TimeoutError:
            pytest.fail(f"{script} with {argument} took over {WAIT_SECONDS} s: {await self.page.evaluate('state()')}")
