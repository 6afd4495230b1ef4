"""The box reader on whole, odd and broken files."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vodpress.adapters.isobmff import MalformedMp4, Sample, read_fragments, read_track, top_level

TICKS = 512


def box(name: bytes, *content: bytes, large: bool = False) -> bytes:
    body = b"".join(content)
    if large:
        return struct.pack(">I4sQ", 1, name, len(body) + 16) + body
    return struct.pack(">I4s", len(body) + 8, name) + body


def moov(*, edit_start: int | None = 2 * TICKS, timescale: int = 12800) -> bytes:
    edits = b""
    if edit_start is not None:
        edits = box(b"edts", box(b"elst", struct.pack(">IIIiI", 0, 1, 0, edit_start, 0x10000)))
    header = box(b"mdhd", struct.pack(">IIIIII", 0, 0, 0, timescale, 0, 0))
    description = box(b"stsd", struct.pack(">II", 0, 1), box(b"avc1", bytes(70)))
    media = box(b"mdia", header, box(b"minf", box(b"stbl", description)))
    extends = box(b"mvex", box(b"trex", struct.pack(">IIIIII", 0, 1, 1, TICKS, 0, 0x10000)))
    return box(b"moov", box(b"trak", edits, media), extends)


def fragment(at: int, sizes: list[int], offsets: list[int], *, large: bool = False) -> bytes:
    """Sizes and composition offsets a sample; the first sample is a keyframe."""
    run = box(
        b"trun",
        struct.pack(">III", 0xA05, len(sizes), 0),
        struct.pack(">I", 0x02000000),
        b"".join(struct.pack(">II", size, offset) for size, offset in zip(sizes, offsets, strict=True)),
    )
    header = box(b"tfhd", struct.pack(">II", 0x20000, 1))
    time = box(b"tfdt", struct.pack(">IQ", 0x01000000, at))
    data = box(b"mdat", bytes(sum(sizes)), large=large)
    return box(b"moof", box(b"mfhd", bytes(8)), box(b"traf", header, time, run)) + data


WHOLE = (
    box(b"ftyp", b"iso6") + moov() + fragment(0, [10, 4, 3], [1024, 2560, 512]) + fragment(1536, [9, 2], [1024, 1024])
)


def read(path: Path) -> list[Sample]:
    track = read_track(path)
    return [sample for part in read_fragments(path, track) for sample in part.samples]


def test_samples(tmp_path: Path) -> None:
    path = tmp_path / "whole.mp4"
    path.write_bytes(WHOLE)
    track = read_track(path)
    assert (track.timescale, track.format, track.edit_start) == (12800, "avc1", 1024)
    samples = read(path)
    assert [sample.dts for sample in samples] == [0, 512, 1024, 1536, 2048]
    assert [sample.pts for sample in samples] == [0, 2048, 512, 1536, 2048]
    assert [sample.sync for sample in samples] == [True, False, False, True, False]
    assert [sample.bytes for sample in samples] == [10, 4, 3, 9, 2]
    assert {sample.duration for sample in samples} == {TICKS}


def test_boxes_of_64_bit_length(tmp_path: Path) -> None:
    path = tmp_path / "large.mp4"
    inner = moov()[8:]
    path.write_bytes(box(b"moov", inner, large=True) + fragment(0, [10, 4], [0, 0], large=True))
    assert [sample.bytes for sample in read(path)] == [10, 4]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MalformedMp4):
        read(path)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(moov()[:-1], id="cut short"),
        pytest.param(fragment(0, [1], [0]), id="no header"),
        pytest.param(moov(timescale=0), id="no timescale"),
        pytest.param(moov(edit_start=-1), id="an empty edit"),
        pytest.param(moov() + fragment(0, [10], [0])[:-18], id="no data"),
        pytest.param(
            moov() + fragment(0, [1], [0]).replace(b"trun\0\0\x0a\x05\0\0\0\1", b"trun\0\0\0\0\xff\xff\xff\xff"),
            id="4 billion",
        ),
        pytest.param(struct.pack(">I4s", 3, b"free"), id="shorter than its header"),
        pytest.param(struct.pack(">I4sQ", 1, b"free", 1 << 62), id="longer than any file"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.mp4"
    path.write_bytes(content)
    with pytest.raises(MalformedMp4):
        read(path)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, len(WHOLE)), flips=st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))))
def test_broken_files_are_read_or_refused(tmp_path: Path, cut: int, flips: list[tuple[int, int]]) -> None:
    data = bytearray(WHOLE)
    for place, value in flips:
        data[place] = value
    path = tmp_path / "broken.mp4"
    path.write_bytes(data[:cut])
    try:
        samples = read(path)
    except MalformedMp4:
        return
    assert len(samples) <= len(WHOLE)


@given(data=st.binary(max_size=200))
def test_boxes_lie_within_the_file(data: bytes) -> None:
    try:
        boxes = list(top_level(io.BytesIO(data)))
    except MalformedMp4:
        return
    assert sum(found.bytes for found in boxes) == len(data)
