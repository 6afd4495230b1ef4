"""Reads one media segment at a time: what it holds, when that is shown, and where its keyframe lies."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from vodpress.adapters.isobmff import MalformedMp4, Track, read_fragments, read_track, top_level

_BOX_HEADER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Header:
    """What an initialisation segment says. `shift` in ticks is taken from media time to get the time of showing.

    It is not zero where the edit list hides the encoder's priming, or makes up for reordered pictures.
    """

    track: Track
    shift: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One media segment of a track; times in ticks.

    Attributes:
        decode_start, decode_end: decode time of the first sample, and of what follows the last.
        start, end: when it is shown.
        times: when each sample is shown, in that order.
        starts_with_keyframe: whether the first sample can be decoded alone.
        keyframe_range: offset and length in bytes of the part that ends with the first sample.
    """

    bytes: int
    decode_start: int
    decode_end: int
    start: int
    end: int
    times: tuple[int, ...]
    starts_with_keyframe: bool
    keyframe_range: tuple[int, int]


def read_header(folder: Path, path: str) -> Header:
    """Raises `MalformedMp4`."""
    try:
        track = read_track(folder / path)
        if track.timescale == 0:
            raise MalformedMp4("its timescale is zero")
        return Header(track=track, shift=_edit_list_start((folder / path).read_bytes()))
    except (MalformedMp4, OSError) as error:
        raise MalformedMp4(f"{path}: {error}") from error


def read_segment(folder: Path, path: str, header: Header) -> Segment:
    """Read a segment of one fragment. Raises `MalformedMp4`, also when a sample's bytes are not all there."""
    try:
        with (folder / path).open("rb") as file:
            boxes = [box for box in top_level(file) if box.type == "moof"]
        fragments = list(read_fragments(folder / path, header.track))
        if len(boxes) != 1 or len(fragments) != 1 or not fragments[0].samples:
            raise MalformedMp4(f"{len(fragments)} fragments where one with samples is needed")
    except (MalformedMp4, OSError) as error:
        raise MalformedMp4(f"{path}: {error}") from error
    samples = fragments[0].samples
    times = tuple(sorted(sample.pts - header.shift for sample in samples))
    return Segment(
        bytes=(folder / path).stat().st_size,
        decode_start=fragments[0].decode_time,
        decode_end=samples[-1].dts + samples[-1].duration,
        start=max(0, times[0]),  # an edit list hides what lies before 0
        end=max(sample.pts + sample.duration for sample in samples) - header.shift,
        times=times,
        starts_with_keyframe=samples[0].sync,
        keyframe_range=(boxes[0].offset, boxes[0].bytes + _BOX_HEADER_BYTES + samples[0].bytes),
    )


def _edit_list_start(data: bytes) -> int:
    """The media time at which showing begins (ISO/IEC 14496-12, 8.6.6)."""
    for name in ("moov", "trak", "edts", "elst"):
        data = next((content for kind, content in _boxes(data) if kind == name), b"")
    if not data:
        return 0
    try:
        entries: int = struct.unpack_from(">I", data, 4)[0]
        start: int = struct.unpack_from(">q", data, 16)[0] if data[0] == 1 else struct.unpack_from(">i", data, 12)[0]
    except struct.error as error:
        raise MalformedMp4("its edit list is too short") from error
    if entries != 1 or start < 0:
        raise MalformedMp4(f"an edit list of {entries} entries that starts at {start}")
    return start


def _boxes(data: bytes) -> Iterator[tuple[str, bytes]]:
    for box in top_level(BytesIO(data)):
        yield box.type, data[box.offset + _BOX_HEADER_BYTES : box.offset + box.bytes]
