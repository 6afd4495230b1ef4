"""What the packets of a source say: ffprobe's lines, one a packet, gathered in bounded memory."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from statistics import median_low

from vodpress.domain.media import PacketScan

ENTRIES = "packet=stream_index,pts,dts,duration,flags"
"""For ffprobe's `-show_entries`, with `-of csv=p=0`."""


@dataclass
class StreamPackets:
    """One stream's packets. Times in ticks of the stream; 8 bytes a packet are kept."""

    times: array[int] = field(default_factory=lambda: array("q"))
    keyframes: array[int] = field(default_factory=lambda: array("q"))
    packets: int = 0
    corrupt: int = 0
    last_duration: int = 0
    lacks_presentation_times: bool = False

    def shift_to(self, first: int) -> None:
        """Move every time so that the first is `first`."""
        by = first - min(self.times)
        for times in (self.times, self.keyframes):
            for place, time in enumerate(times):
                times[place] = time + by

    def add(self, pts: int | None, duration: int, flags: str) -> None:
        """Take one packet. Those that the container says must not be shown are counted and not timed."""
        self.packets += 1
        self.corrupt += "C" in flags
        if pts is None or "D" in flags:
            return
        if not self.times or pts >= max(self.times[-1], self.times[0]):
            self.last_duration = duration
        self.times.append(pts)
        if "K" in flags:
            self.keyframes.append(pts)


class PacketLines:
    """Reads ffprobe's CSV lines: `stream_index,pts,dts,duration,flags`."""

    def __init__(self) -> None:
        self.streams: dict[int, StreamPackets] = {}

    async def feed(self, line: bytes) -> None:
        """Take one line."""
        parts = line.decode(errors="replace").strip().split(",")
        if len(parts) < 5 or not parts[0].isdigit():
            return
        stream = self.streams.setdefault(int(parts[0]), StreamPackets())
        pts = _number(parts[1])
        # AVI has no presentation times; the decoding times have the same distances.
        time = _number(parts[2]) if pts is None else pts
        stream.lacks_presentation_times |= pts is None
        stream.add(time, _number(parts[3]) or 0, parts[4])

    def end_seconds(self, index: int, tick: Fraction) -> Fraction | None:
        """Where a stream's last packet ends; `None` without packets."""
        stream = self.streams.get(index)
        if stream is None or not stream.times:
            return None
        return (max(stream.times) + stream.last_duration) * tick


def scan(stream: StreamPackets, tick: Fraction) -> PacketScan:
    """The facts of a video stream with at least one timed packet."""
    times = sorted(stream.times)
    gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    middle = median_low(gaps) if gaps else stream.last_duration
    keyframes = [*sorted(stream.keyframes), times[-1]] if stream.keyframes else [times[0], times[-1]]
    return PacketScan(
        packets=stream.packets,
        first_pts_seconds=times[0] * tick,
        end_seconds=(times[-1] + (stream.last_duration or middle)) * tick,
        shortest_gap_seconds=min(gaps, default=middle) * tick,
        longest_gap_seconds=max(gaps, default=middle) * tick,
        median_gap_seconds=middle * tick,
        longest_keyframe_gap_seconds=max((later - earlier for earlier, later in pairwise(keyframes)), default=0) * tick,
    )


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:  # `N/A`
        return None
