"""Reads one media segment at a time: what it holds, when that is shown, and where its keyframes lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vodpress.adapters.isobmff import MalformedMp4, Track, read_fragments, read_track, top_level

_BOX_HEADER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Keyframe:
    """The sample that a fragment begins with: when it is shown, and the bytes of the file that end with it."""

    time: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Segment:
    """One media segment of a track; times in ticks.

    Attributes:
        decode_start, decode_end: decode time of the first sample, and of what follows the last.
        start, end: when it is shown.
        times: when each sample is shown, in that order.
        keyframes: the first sample of each fragment.
        starts_with_keyframe: whether the first sample of each fragment can be decoded alone.
    """

    bytes: int
    decode_start: int
    decode_end: int
    start: int
    end: int
    times: tuple[int, ...]
    keyframes: tuple[Keyframe, ...]
    starts_with_keyframe: bool


def read_header(folder: Path, path: str) -> Track:
    """The track that an initialisation segment describes. Raises `MalformedMp4`."""
    try:
        return read_track(folder / path)
    except (MalformedMp4, OSError) as error:
        raise MalformedMp4(f"{path}: {error}") from error


def read_segment(folder: Path, path: str, header: Track) -> Segment:
    """Read a segment. Raises `MalformedMp4`, also when a sample's bytes are not all there."""
    try:
        with (folder / path).open("rb") as file:
            boxes = [box for box in top_level(file) if box.type == "moof"]
        fragments = list(read_fragments(folder / path, header))
    except (MalformedMp4, OSError) as error:
        raise MalformedMp4(f"{path}: {error}") from error
    if not fragments or len(boxes) != len(fragments):
        raise MalformedMp4(f"{path}: {len(fragments)} whole fragments where {len(boxes)} are begun")
    if not all(fragment.samples for fragment in fragments):
        raise MalformedMp4(f"{path}: a fragment without samples")
    decode_time = fragments[0].decode_time
    for fragment in fragments:
        if fragment.decode_time != decode_time:
            raise MalformedMp4(f"{path}: a fragment at {fragment.decode_time} where {decode_time} follows")
        decode_time = fragment.samples[-1].dts + fragment.samples[-1].duration
    samples = [sample for fragment in fragments for sample in fragment.samples]
    times = tuple(sorted(sample.pts for sample in samples))
    return Segment(
        bytes=(folder / path).stat().st_size,
        decode_start=fragments[0].decode_time,
        decode_end=decode_time,
        start=max(0, times[0]),  # an edit list hides what lies before 0
        end=max(sample.pts + sample.duration for sample in samples),
        times=times,
        keyframes=tuple(
            Keyframe(
                time=fragment.samples[0].pts,
                offset=box.offset,
                length=box.bytes + _BOX_HEADER_BYTES + fragment.samples[0].bytes,
            )
            for box, fragment in zip(boxes, fragments, strict=True)
        ),
        starts_with_keyframe=all(fragment.samples[0].sync for fragment in fragments),
    )
