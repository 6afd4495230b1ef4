"""FFmpeg's arguments: whole commands compared, and what must hold for any plan."""

from __future__ import annotations

import os
import shlex
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vodpress.adapters.ffmpeg.command import decimal, frame_ticks, plan_commands, seek_seconds
from vodpress.domain.plan import AudioPlan, Picture, Plan, RungPlan, cut

GOLDEN = Path(__file__).parent / "golden"


def make_plan(
    *, rate: Fraction = Fraction(25), frames: int = 700, audio: bool = True, rungs: int = 2, **picture: object
) -> Plan:
    gop = round(2 * rate)
    defaults: dict[str, object] = {
        "stream_index": 0,
        "start_ticks": 0,
        "tick_seconds": Fraction(1, 12800),
        "longest_gap_seconds": 1 / rate,
        "longest_keyframe_gap_seconds": Fraction(5),
        "seekable": True,
        "deinterlace": False,
        "tone_map": False,
    }
    sizes = [("720p", 1280, 720, "high", 3000), ("360p", 640, 360, "main", 800)][:rungs]
    return Plan(
        frame_rate=rate,
        frames=frames,
        gop_frames=gop,
        segment_frames=3 * gop,
        preset="medium",
        picture=Picture.model_validate({**defaults, **picture}),
        rungs=tuple(
            RungPlan(
                name=name,
                width=width,
                height=height,
                codec="h264",
                profile=profile,
                crf=23,
                maxrate_kbps=most,
                required=True,
            )
            for name, width, height, profile, most in sizes
        ),
        audio=AudioPlan(
            name="audio",
            stream_index=1,
            codec="aac",
            bitrate_kbps=128,
            channels=2,
            sample_rate_hz=48000,
            language="eng",
        )
        if audio
        else None,
        slices=cut(frames, slice_frames=6 * gop),
    )


PLANS = {
    "constant": make_plan(),
    "fractional-late-start": make_plan(
        rate=Fraction(30000, 1001), start_ticks=132006, tick_seconds=Fraction(1, 90000), seekable=False
    ),
    "interlaced-hdr-silent": make_plan(audio=False, deinterlace=True, tone_map=True, rungs=1),
    "variable-with-pause": make_plan(rate=Fraction(30), longest_gap_seconds=Fraction(19, 10), start_ticks=-40),
}


@pytest.mark.parametrize("name", PLANS)
def test_whole_commands(name: str) -> None:
    """Run with VODPRESS_TEST_GOLDEN=write to accept a change, and read the difference before it is committed."""
    text = "\n\n".join(shlex.join(command).replace(" -", "\n  -") for command in plan_commands(PLANS[name])) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("VODPRESS_TEST_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


RATES = st.sampled_from(
    [Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001), Fraction(50), Fraction(60), Fraction(12)]
)


@given(
    rate=RATES,
    start=st.integers(-10_000, 10_000_000),
    gap=st.fractions(min_value=0, max_value=20, max_denominator=1000),
    frames=st.integers(1, 200_000),
    seekable=st.booleans(),
)
def test_reading_begins_before_the_frame_on_screen(
    rate: Fraction, start: int, gap: Fraction, frames: int, seekable: bool
) -> None:
    plan = make_plan(rate=rate, frames=frames, start_ticks=start, longest_gap_seconds=gap, seekable=seekable)
    begin = start * plan.picture.tick_seconds
    for part in plan.slices:
        at = seek_seconds(plan, part)
        if at is None:
            continue
        shown_at = begin + part.first_frame / rate
        assert begin < at <= shown_at - gap - 2 / rate - Fraction(1, 2)
        assert Fraction(decimal(at)) <= at
    assert seek_seconds(plan, plan.slices[0]) is None


@given(rate=RATES, frame=st.integers(0, 10_000_000))
def test_every_frame_lies_on_a_whole_tick(rate: Fraction, frame: int) -> None:
    timescale, ticks = frame_ticks(rate)
    assert Fraction(frame * ticks, timescale) == frame / rate
    assert 10_000 <= timescale < 2**31


def test_no_user_text_is_in_a_filter_and_inputs_are_opened_with_care() -> None:
    for plan in PLANS.values():
        for command in plan_commands(plan):
            assert command[command.index("-i") + 1] == "file:SOURCE"
            for option in ("-protocol_whitelist", "-format_whitelist", "-max_streams", "-max_alloc"):
                assert command.index(option) < command.index("-i")
            assert "hls" not in command[command.index("-format_whitelist") + 1].split(",")
