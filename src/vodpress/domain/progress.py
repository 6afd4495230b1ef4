"""How far an asset is, weighed by the work its renditions take: pixels × frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RenditionProgress:
    """One rendition on its way. `fraction` is 0 … 1, `weight` is pixels × frames (audio: samples / 100)."""

    name: str
    state: str
    width: int | None
    height: int | None
    weight: float
    fraction: float
    speed: float


@dataclass(frozen=True, slots=True)
class AssetProgress:
    """All renditions of a plan on their way."""

    renditions: tuple[RenditionProgress, ...]
    packaging: bool

    @property
    def fraction(self) -> float:
        """Part of the encoding work that is done, 0 … 1."""
        total = sum(rendition.weight for rendition in self.renditions)
        if total <= 0:
            return 0.0
        return sum(rendition.weight * rendition.fraction for rendition in self.renditions) / total

    @property
    def speed(self) -> float:
        """Media seconds encoded a wall second by the jobs that run now, over all of them."""
        return max((rendition.speed for rendition in self.renditions), default=0.0)


def remaining_seconds(history: Sequence[tuple[float, float]]) -> float | None:
    """Time left, from `(seconds since start, fraction done)` samples, oldest first.

    The rate is that over the last half of the samples: the start is slower and should not be remembered for long.
    `None` while too little is done to say.
    """
    if len(history) < 2:
        return None
    recent = history[len(history) // 2 - 1 :]
    (earlier, done_earlier), (now, done_now) = recent[0], recent[-1]
    if done_now - done_earlier <= 0.005 or now <= earlier:
        return None
    return (1 - done_now) * (now - earlier) / (done_now - done_earlier)
