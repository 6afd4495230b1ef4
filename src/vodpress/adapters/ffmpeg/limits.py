"""How long a media tool may run and stand still."""

from __future__ import annotations

from dataclasses import dataclass

_START_SECONDS = 60.0
_SLOWEST_PIXELS_PER_SECOND = 1_000_000
_SLOWEST_MEDIA_SPEED = 0.5


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Attributes:
    stall_seconds: how long a tool's progress may stand still.
    ceiling_factor: how many times the expected time a run may take.
    nice: added to a tool's niceness.
    """

    stall_seconds: float
    ceiling_factor: float
    nice: int

    def ceiling(self, *, media_seconds: float, pixels: float = 0.0) -> float:
        """The longest a run may take: for reading `media_seconds` and encoding `pixels` (width × height × frames).

        The expectation is that of a very slow machine; what hangs is caught by the stall clock long before.
        """
        expected = _START_SECONDS + media_seconds / _SLOWEST_MEDIA_SPEED + pixels / _SLOWEST_PIXELS_PER_SECOND
        return self.ceiling_factor * expected
