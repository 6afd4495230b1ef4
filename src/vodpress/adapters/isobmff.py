"""Reads the boxes of fragmented MP4 (ISO/IEC 14496-12): enough to know every sample without decoding or loading one."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_LARGEST_BOX_IN_MEMORY = 64 << 20
_MOST_SAMPLES = 1_000_000  # of one run; a run may state any number of samples without a byte for each

_TFHD_DEFAULT_DURATION, _TFHD_DEFAULT_SIZE, _TFHD_DEFAULT_FLAGS = 0x08, 0x10, 0x20
_TFHD_BASE_OFFSET, _TFHD_DESCRIPTION = 0x01, 0x02
_TRUN_DATA_OFFSET, _TRUN_FIRST_FLAGS = 0x001, 0x004
_TRUN_DURATION, _TRUN_SIZE, _TRUN_FLAGS, _TRUN_COMPOSITION = 0x100, 0x200, 0x400, 0x800
_SAMPLE_IS_NOT_SYNC = 0x10000


class MalformedMp4(ValueError):
    """The file is not the fragmented MP4 it should be."""


@dataclass(frozen=True, slots=True)
class Box:
    """A top-level box: its type and where it lies in the file; `bytes` counts its header, too."""

    type: str
    offset: int
    bytes: int
    header_bytes: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One coded picture or audio frame. Times in ticks of the track's timescale; `pts` is when it is shown."""

    dts: int
    pts: int
    duration: int
    bytes: int
    sync: bool


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a track's samples are where their fragment does not say."""

    duration: int = 0
    bytes: int = 0
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Track:
    """The one track of a file. `timescale` is ticks a second, `format` the sample entry, e.g. `avc1`.

    `edit_start` is the media time, in ticks, at which showing begins: not zero where the edit list hides the encoder's
    priming, or makes up for pictures that are decoded before they are shown.
    """

    timescale: int
    format: str
    defaults: Defaults
    edit_start: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """One `moof` and its samples, in decoding order."""

    decode_time: int
    samples: tuple[Sample, ...]


def top_level(file: BinaryIO) -> Iterator[Box]:
    """The boxes of a file from its beginning.

    Raises:
        MalformedMp4: the last box is cut short, or what is there is no box.
    """
    size = file.seek(0, 2)
    offset = 0
    while offset < size:
        file.seek(offset)
        header = file.read(16)
        if len(header) < 8:
            raise MalformedMp4(f"{size - offset} stray bytes at {offset}")
        length, name = struct.unpack_from(">I4s", header)
        own = 8
        if length == 1 and len(header) == 16:
            length, own = struct.unpack_from(">Q", header, 8)[0], 16
        if length < own or offset + length > size:
            raise MalformedMp4(f"box {name!r} at {offset} claims {length} bytes, the file ends after {size - offset}")
        yield Box(name.decode("latin-1"), offset, length, own)
        offset += length


def read_track(path: Path) -> Track:
    """The track that a file's `moov` describes.

    Raises:
        MalformedMp4: there is no `moov`, or not exactly one track in it.
    """
    with path.open("rb") as file:
        for box in top_level(file):
            if box.type == "moov":
                return _track(_content(file, box))
    raise MalformedMp4(f"{path.name} has no moov box")


def read_fragments(path: Path, track: Track) -> Iterator[Fragment]:
    """The fragments of a file (or of a media segment without `moov`), one after the other.

    Raises:
        MalformedMp4: a box is malformed, or a fragment's `mdat` has not the bytes its samples need.
    """
    with path.open("rb") as file:
        pending: Fragment | None = None
        for box in top_level(file):
            if box.type == "moof":
                pending = _fragment(_content(file, box), track)
            elif box.type == "mdat" and pending is not None:
                needed = sum(sample.bytes for sample in pending.samples)
                if box.bytes - box.header_bytes < needed:
                    raise MalformedMp4(
                        f"mdat at {box.offset} of {path.name} has {box.bytes} bytes, {needed} are needed"
                    )
                yield pending
                pending = None
        if pending is not None:
            raise MalformedMp4(f"{path.name} ends after a moof, without its mdat")


def _content(file: BinaryIO, box: Box) -> bytes:
    if box.bytes > _LARGEST_BOX_IN_MEMORY:
        raise MalformedMp4(f"box {box.type} of {box.bytes} bytes")
    file.seek(box.offset + box.header_bytes)
    return file.read(box.bytes - box.header_bytes)


def _children(data: bytes) -> Iterator[tuple[str, bytes]]:
    offset = 0
    while offset + 8 <= len(data):
        length, name = struct.unpack_from(">I4s", data, offset)
        if length < 8 or offset + length > len(data):
            raise MalformedMp4(f"box {name!r} does not fit its parent")
        yield name.decode("latin-1"), data[offset + 8 : offset + length]
        offset += length


def _find(data: bytes, *path: str) -> list[bytes]:
    """The contents of every box at a path, e.g. `moov` content → `trak`, `mdia`."""
    found = [data]
    for name in path:
        found = [content for parent in found for kind, content in _children(parent) if kind == name]
    return found


def _one(data: bytes, *path: str) -> bytes:
    found = _find(data, *path)
    if len(found) != 1:
        raise MalformedMp4(f"{len(found)} boxes at {'/'.join(path)} where one is needed")
    return found[0]


def _track(moov: bytes) -> Track:
    header = _one(moov, "trak", "mdia", "mdhd")
    description = _one(moov, "trak", "mdia", "minf", "stbl", "stsd")
    try:
        timescale = struct.unpack_from(">I", header, 20 if header[0] == 1 else 12)[0]
        extends = _find(moov, "mvex", "trex")
        defaults = Defaults(*struct.unpack_from(">III", extends[0], 12)) if extends else Defaults()
        if timescale == 0:
            raise MalformedMp4("its timescale is zero")
        return Track(
            timescale=timescale,
            format=description[12:16].decode("latin-1"),
            defaults=defaults,
            edit_start=_edit_start(_find(moov, "trak", "edts", "elst")),
        )
    except (struct.error, IndexError) as error:
        raise MalformedMp4("a box of moov is too short") from error


def _edit_start(edit_lists: Sequence[bytes]) -> int:
    """Where showing begins (ISO/IEC 14496-12, 8.6.6). Raises `MalformedMp4` for edits that do more than that."""
    if not edit_lists:
        return 0
    edit_list = edit_lists[0]
    entries: int = struct.unpack_from(">I", edit_list, 4)[0]
    start: int = struct.unpack_from(">q" if edit_list[0] == 1 else ">i", edit_list, 16 if edit_list[0] == 1 else 12)[0]
    if entries != 1 or start < 0:
        raise MalformedMp4(f"an edit list of {entries} entries that starts at {start}")
    return start


def _fragment(moof: bytes, track: Track) -> Fragment:
    try:
        traf = _one(moof, "traf")
        time_box = _one(traf, "tfdt")
        decode_time = struct.unpack_from(">Q" if time_box[0] == 1 else ">I", time_box, 4)[0]
        own = _header_defaults(_one(traf, "tfhd"), track.defaults)
        samples: list[Sample] = []
        at = decode_time
        for run in _find(traf, "trun"):
            for sample in _run(run, own, at, track.edit_start):
                samples.append(sample)
                at = sample.dts + sample.duration
    except (struct.error, IndexError) as error:
        raise MalformedMp4("a box of moof is too short") from error
    return Fragment(decode_time=decode_time, samples=tuple(samples))


def _header_defaults(tfhd: bytes, defaults: Defaults) -> Defaults:
    flags = int.from_bytes(tfhd[1:4], "big")
    offset = 8 + (8 if flags & _TFHD_BASE_OFFSET else 0) + (4 if flags & _TFHD_DESCRIPTION else 0)
    values = [defaults.duration, defaults.bytes, defaults.flags]
    for position, bit in enumerate((_TFHD_DEFAULT_DURATION, _TFHD_DEFAULT_SIZE, _TFHD_DEFAULT_FLAGS)):
        if flags & bit:
            values[position] = struct.unpack_from(">I", tfhd, offset)[0]
            offset += 4
    return Defaults(*values)


def _run(trun: bytes, defaults: Defaults, decode_time: int, edit_start: int) -> Iterator[Sample]:
    version, flags = trun[0], int.from_bytes(trun[1:4], "big")
    count = struct.unpack_from(">I", trun, 4)[0]
    if count > _MOST_SAMPLES:
        raise MalformedMp4(f"a run of {count} samples")
    offset = 8 + (4 if flags & _TRUN_DATA_OFFSET else 0)
    first_flags = None
    if flags & _TRUN_FIRST_FLAGS:
        first_flags = struct.unpack_from(">I", trun, offset)[0]
        offset += 4
    fields = [bit for bit in (_TRUN_DURATION, _TRUN_SIZE, _TRUN_FLAGS, _TRUN_COMPOSITION) if flags & bit]
    # Version 1 has signed composition offsets; in version 0 they are unsigned.
    row = struct.Struct(">" + "".join("i" if bit == _TRUN_COMPOSITION and version else "I" for bit in fields))
    for index in range(count):
        values = dict(zip(fields, row.unpack_from(trun, offset + index * row.size), strict=True))
        own_flags = values.get(_TRUN_FLAGS, first_flags if index == 0 and first_flags is not None else defaults.flags)
        duration = values.get(_TRUN_DURATION, defaults.duration)
        yield Sample(
            dts=decode_time,
            pts=decode_time + values.get(_TRUN_COMPOSITION, 0) - edit_start,
            duration=duration,
            bytes=values.get(_TRUN_SIZE, defaults.bytes),
            sync=not own_flags & _SAMPLE_IS_NOT_SYNC,
        )
        decode_time += duration
