"""Reads FFmpeg's `-progress` lines. Pure."""

from __future__ import annotations

from fractions import Fraction


class ProgressReader:
    """Takes one line after the other and knows how far the output is.

    Args:
        begin_seconds: time of the output's first frame; output times are those of the source.
    """

    def __init__(self, *, frame_rate: Fraction | None, begin_seconds: float = 0.0) -> None:
        self._frame_rate = frame_rate
        self._begin_seconds = begin_seconds
        self._seen: tuple[str, str] = ("", "")
        self.done_seconds = 0.0

    def feed(self, line: bytes) -> bool:
        """Take a line; whether it says that the output has grown since."""
        key, _, value = line.decode(errors="replace").strip().partition("=")
        value = value.strip()
        wanted = "frame" if self._frame_rate is not None else "out_time_us"
        if key != wanted or (key, value) == self._seen:
            return False
        self._seen = (key, value)
        try:
            count = int(value)
        except ValueError:  # `N/A` before the first frame
            return False
        if count <= 0:
            return False
        if self._frame_rate is not None:
            self.done_seconds = float(count / self._frame_rate)
        else:
            self.done_seconds = count / 1_000_000 - self._begin_seconds
        return True
