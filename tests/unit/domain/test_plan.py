"""Plans: they cover the source exactly, at sizes an encoder can take, and their hash sees every change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from vodpress.domain.ladder import Ladder, Rung
from vodpress.domain.media import AudioStream, PacketScan, Probe, VideoStream
from vodpress.domain.plan import Plan, cut, fingerprint, make_plan, round_half_away, scaled_size

SIDES = st.integers(2, 8192)
LADDER = Ladder(
    name="test",
    rungs=tuple(Rung(name=f"{side}p", short_side=side, maxrate_kbps=side * 4) for side in (2160, 1080, 720, 480, 360)),
)


@st.composite
def ladders(draw: st.DrawFn) -> Ladder:
    sides = draw(st.lists(st.integers(16, 4320), min_size=1, max_size=6, unique=True))
    gop = draw(st.floats(0.5, 5))
    segment = draw(st.floats(max(1.0, gop), 10))
    return Ladder(
        name="test",
        gop_seconds=gop,
        segment_seconds=segment,
        slice_seconds=draw(st.floats(max(2.0, segment), 60)),
        frame_rate_cap=draw(st.floats(1, 240)),
        rungs=tuple(Rung(name=f"{side}p", short_side=side, maxrate_kbps=1000) for side in sides),
    )


@st.composite
def probes(draw: st.DrawFn, *, longest_seconds: int = 20_000) -> Probe:
    rate = draw(
        st.sampled_from([Fraction(24000, 1001), Fraction(25), Fraction(30000, 1001), Fraction(60), Fraction(17, 3)])
    )
    first = draw(st.fractions(0, 10, max_denominator=90_000))
    width, height = draw(SIDES), draw(SIDES)
    duration = draw(st.fractions(Fraction(1, 1000), longest_seconds, max_denominator=90_000))
    scan = PacketScan(
        packets=max(1, round(duration * rate)),
        first_pts_seconds=first,
        end_seconds=first + duration,
        shortest_gap_seconds=1 / rate,
        longest_gap_seconds=draw(st.sampled_from([1 / rate, 3 / rate])),
        median_gap_seconds=1 / rate,
        longest_keyframe_gap_seconds=duration,
    )
    video = VideoStream(
        index=draw(st.integers(0, 3)),
        codec="h264",
        profile="High",
        pixel_format="yuv420p",
        width=width,
        height=height,
        coded_width=width,
        coded_height=height,
        sample_aspect_ratio=Fraction(1),
        rotation_degrees=0,
        declared_frame_rate=rate,
        time_base_seconds=Fraction(1, 90_000),
        start_ticks=round(first * 90_000),
        declared_duration_seconds=duration,
        declared_frames=None,
        color_transfer=draw(st.sampled_from(["bt709", "smpte2084", ""])),
        color_primaries="bt709",
        color_space="bt709",
        color_range="tv",
        field_order=draw(st.sampled_from(["progressive", "tt", ""])),
        scan=scan,
    )
    audio = AudioStream(
        index=4,
        codec="aac",
        channels=draw(st.integers(1, 8)),
        channel_layout="",
        sample_rate_hz=44_100,
        language="deu",
        start_seconds=first,
        declared_duration_seconds=None,
    )
    return Probe(
        container="mov,mp4",
        bytes=1000,
        duration_seconds=duration,
        video=video,
        audio=draw(st.sampled_from([(), (audio,), (audio, replace(audio, index=5, language="eng"))])),
        seekable=draw(st.booleans()),
    )


@given(st.integers(1, 5000), st.floats(0, 300))
def test_slices_cover_every_frame_once(slice_frames: int, lengths: float) -> None:
    frames = max(1, int(slice_frames * lengths))
    slices = cut(frames, slice_frames=slice_frames)
    assert [part.index for part in slices] == list(range(len(slices)))
    position = 0
    for part in slices:
        assert part.first_frame == position
        position += part.frames
    assert position == frames
    assert all(part.frames == slice_frames for part in slices[:-1])
    if len(slices) > 1:
        assert slice_frames <= 2 * slices[-1].frames  # shorter than half would have joined its neighbour
    assert 2 * slices[-1].frames <= 3 * slice_frames


@given(SIDES, SIDES, st.data())
def test_a_scaled_size_is_even_and_never_larger(width: int, height: int, data: st.DataObject) -> None:
    short_side = data.draw(st.integers(2, min(width, height)))
    scaled = scaled_size(width=width, height=height, short_side=short_side)
    for length, source in zip(scaled, (width, height), strict=True):
        assert length % 2 == 0
        assert 2 <= length <= source
        assert abs(length - source * Fraction(short_side, min(width, height))) < 2
    turned = scaled_size(width=height, height=width, short_side=short_side)
    assert turned == scaled[::-1]


@given(st.fractions())
def test_halves_are_rounded_away_from_zero(value: Fraction) -> None:
    rounded = round_half_away(value)
    assert abs(rounded - value) <= Fraction(1, 2)
    if abs(rounded - value) == Fraction(1, 2):
        assert abs(rounded) > abs(value)


@given(probes(), ladders())
def test_a_plan_fits_its_source(probe: Probe, ladder: Ladder) -> None:
    plan = make_plan(probe, ladder)
    video = probe.video
    assert plan.rungs
    assert all(rung.width <= video.width and rung.height <= video.height for rung in plan.rungs)
    assert plan.frame_rate <= ladder.frame_rate_cap
    assert plan.frames >= 1
    assert (
        abs(plan.duration_seconds - video.scan.duration_seconds) <= Fraction(1, 2) / plan.frame_rate or plan.frames == 1
    )
    assert (plan.picture.deinterlace, plan.picture.tone_map) == (video.is_interlaced, video.is_hdr)


@given(probes(), ladders())
def test_slices_and_segments_start_where_groups_of_pictures_do(probe: Probe, ladder: Ladder) -> None:
    plan = make_plan(probe, ladder)
    assert plan.segment_frames % plan.gop_frames == 0
    assert all(part.first_frame % plan.segment_frames == 0 for part in plan.slices)
    assert sum(part.frames for part in plan.slices) == plan.frames


@given(probes())
def test_a_portrait_source_is_measured_by_its_short_side(probe: Probe) -> None:
    video = probe.video
    turned = replace(probe, video=replace(video, width=video.height, height=video.width))
    upright, sideways = make_plan(probe, LADDER), make_plan(turned, LADDER)
    assert [(rung.name, rung.width, rung.height) for rung in upright.rungs] == [
        (rung.name, rung.height, rung.width) for rung in sideways.rungs
    ]


@given(probes())
def test_audio_is_the_first_stream_with_no_more_channels_than_it_has(probe: Probe) -> None:
    audio = make_plan(probe, LADDER).audio
    if not probe.audio:
        assert audio is None
    else:
        assert audio is not None
        assert (audio.stream_index, audio.language) == (4, "deu")
        assert audio.channels == min(2, probe.audio[0].channels)


@given(probes(), ladders())
def test_a_plan_survives_json(probe: Probe, ladder: Ladder) -> None:
    plan = make_plan(probe, ladder)
    for text in (plan.model_dump_json(), json.dumps(plan.model_dump(mode="json"))):
        again = Plan.model_validate(json.loads(text))
        assert again == plan
        assert _hash(again) == _hash(plan)


@settings(max_examples=20)
@given(probes(longest_seconds=60), ladders())  # short: it looks at every value of every slice
def test_every_change_of_a_plan_changes_its_hash(probe: Probe, ladder: Ladder) -> None:
    plan = make_plan(probe, ladder)
    hashes = [_hash(changed) for changed in _changes(plan)]
    assert len(hashes) > 20
    assert _hash(plan) not in hashes
    assert len(set(hashes)) == len(hashes)


def _hash(plan: Plan) -> str:
    return fingerprint(plan, commands=[["ffmpeg", "-i", "SOURCE"]], tools={"ffmpeg": "9"})


def _changes(plan: Plan) -> Iterator[Plan]:
    """The plan with each of its values changed by itself."""
    document = plan.model_dump(mode="json")
    for path in list(_leaves(document)):
        changed = json.loads(json.dumps(document))
        *above, last = path
        place: Any = changed
        for step in above:
            place = place[step]
        place[last] = _other(place[last])
        yield Plan.model_validate(changed)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    elif value is not None:
        yield path


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return str(Fraction(value) + 1) if re.fullmatch(r"-?\d+(/\d+)?", value) else value + "x"


@given(probes())
def test_commands_and_tools_are_part_of_the_hash(probe: Probe) -> None:
    plan = make_plan(probe, LADDER)

    def hashed(commands: list[list[str]], tools: dict[str, str]) -> str:
        return fingerprint(plan, commands=commands, tools=tools)

    usual = hashed([["a", "b"], ["c"]], {"x": "1", "y": "2"})
    assert re.fullmatch("[0-9a-f]{64}", usual)
    assert usual == hashed([["a", "b"], ["c"]], {"y": "2", "x": "1"})
    others = [
        hashed([["a", "b", "c"]], {"x": "1", "y": "2"}),
        hashed([["a"], ["b", "c"]], {"x": "1", "y": "2"}),
        hashed([["c"], ["a", "b"]], {"x": "1", "y": "2"}),
        hashed([["a", "b"], ["c"]], {"x": "1", "y": "3"}),
        hashed([["a", "b"], ["c"]], {"x": "1"}),
        hashed([["ab"], ["c"]], {"x": "1", "y": "2"}),
    ]
    assert len({usual, *others}) == 1 + len(others)


@given(probes())
def test_a_plan_cannot_be_changed_and_knows_its_rungs(probe: Probe) -> None:
    plan = make_plan(probe, LADDER)
    assert plan.rung(plan.rungs[0].name) == plan.rungs[0]
    with pytest.raises(KeyError):
        plan.rung("none")
    with pytest.raises(ValidationError):
        plan.frames = 1
