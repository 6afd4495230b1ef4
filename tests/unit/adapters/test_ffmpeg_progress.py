"""FFmpeg's `-progress` lines."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from vodpress.adapters.ffmpeg.progress import ProgressReader


def test_frames_become_seconds() -> None:
    reader = ProgressReader(frame_rate=Fraction(25))
    assert not reader.feed(b"frame=0")
    assert reader.feed(b"frame=50")
    assert reader.done_seconds == 2
    assert not reader.feed(b"frame=50"), "nothing new is no progress"
    assert not reader.feed(b"out_time_us=9000000")
    assert reader.feed(b"frame=  75 ")
    assert reader.done_seconds == 3


def test_audio_goes_by_time() -> None:
    reader = ProgressReader(frame_rate=None)
    assert not reader.feed(b"out_time_us=N/A")
    assert reader.feed(b"out_time_us=1500000")
    assert reader.done_seconds == 1.5


@given(lines=st.lists(st.binary(max_size=60)))
def test_any_line_is_taken(lines: list[bytes]) -> None:
    reader = ProgressReader(frame_rate=Fraction(30))
    for line in lines:
        reader.feed(line)
    assert reader.done_seconds >= 0
