"""From a probe and a ladder to the exact encodes: rungs, frame rate, GOPs, segments, slices, and the hash of it all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from pydantic import BaseModel, ConfigDict

from vodpress.domain.ladder import AudioRung, Ladder, Rung, fitting_rungs, output_frame_rate
from vodpress.domain.media import Probe, VideoStream


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RungPlan(_Frozen):
    """One video rendition to make. Sizes in pixels, always even (4:2:0 needs it)."""

    name: str
    width: int
    height: int
    codec: str
    profile: str
    crf: float
    maxrate_kbps: int
    required: bool


class AudioPlan(_Frozen):
    """The audio rendition to make, from the source stream `stream_index`."""

    name: str
    stream_index: int
    codec: str
    bitrate_kbps: int
    channels: int
    sample_rate_hz: int
    language: str


class Slice(_Frozen):
    """A stretch of output frames encoded as one job: frames `first_frame` to `first_frame + frames - 1`."""

    index: int
    first_frame: int
    frames: int


class Picture(_Frozen):
    """How the source's picture is read: what must be done to each frame before it is scaled.

    Attributes:
        stream_index: the video stream.
        start_ticks, tick_seconds: time of the first frame; output frame 0 is shown at that moment.
        longest_gap_seconds: how far back a slice must start reading to have the frame shown at its first instant.
        longest_keyframe_gap_seconds: how far back the nearest keyframe may lie.
        seekable: whether the container has an index, so that a seek lands on a keyframe.
        deinterlace, tone_map: filters wanted before scaling.
    """

    stream_index: int
    start_ticks: int
    tick_seconds: Fraction
    longest_gap_seconds: Fraction
    longest_keyframe_gap_seconds: Fraction
    seekable: bool
    deinterlace: bool
    tone_map: bool


class Plan(_Frozen):
    """Everything needed to encode one source, and nothing that depends on when or where it runs.

    `frames` is the exact number of frames of every rendition; `gop_frames` and `segment_frames` are in frames too, so
    that fractional rates stay exact.
    """

    frame_rate: Fraction
    frames: int
    gop_frames: int
    segment_frames: int
    preset: str
    picture: Picture
    rungs: tuple[RungPlan, ...]
    audio: AudioPlan | None
    slices: tuple[Slice, ...]

    @property
    def duration_seconds(self) -> Fraction:
        """Length of every video rendition."""
        return self.frames / self.frame_rate

    @property
    def segment_seconds(self) -> Fraction:
        """Length of every segment but the last."""
        return self.segment_frames / self.frame_rate

    @property
    def most_bytes(self) -> int:
        """Bytes of all renditions together, were each at its ceiling all the time; usually about half of it is used."""
        kilobits = sum(rung.maxrate_kbps for rung in self.rungs) + (self.audio.bitrate_kbps if self.audio else 0)
        return int(self.duration_seconds * kilobits * 125)

    def rung(self, name: str) -> RungPlan:
        """The video rung called `name`; `KeyError` when there is none."""
        for rung in self.rungs:
            if rung.name == name:
                return rung
        raise KeyError(name)


def make_plan(probe: Probe, ladder: Ladder) -> Plan:
    """Choose rungs, frame rate and slices for a source."""
    video = probe.video
    rate = output_frame_rate(
        declared=video.declared_frame_rate,
        median_gap_seconds=video.scan.median_gap_seconds,
        variable=video.is_variable_frame_rate,
        cap=ladder.frame_rate_cap,
    )
    frames = max(1, round_half_away(video.scan.duration_seconds * rate))
    gop = max(1, round(Fraction(ladder.gop_seconds) * rate))
    segment = gop * max(1, round(Fraction(ladder.segment_seconds) * rate / gop))
    slice_frames = segment * max(1, round(Fraction(ladder.slice_seconds) * rate / segment))
    return Plan(
        frame_rate=rate,
        frames=frames,
        gop_frames=gop,
        segment_frames=segment,
        preset=ladder.preset,
        picture=_picture(probe),
        rungs=tuple(
            _rung_plan(rung, video) for rung in fitting_rungs(ladder, short_side=min(video.width, video.height))
        ),
        audio=_audio_plan(probe, ladder.audio),
        slices=cut(frames, slice_frames=slice_frames),
    )


def cut(frames: int, *, slice_frames: int) -> tuple[Slice, ...]:
    """Cut `frames` into slices of `slice_frames`; a last one shorter than half joins its neighbour."""
    count = max(1, round_half_away(Fraction(frames, slice_frames)))
    starts = [number * slice_frames for number in range(count)]
    ends = [*starts[1:], frames]
    return tuple(
        Slice(index=index, first_frame=start, frames=end - start)
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def round_half_away(value: Fraction) -> int:
    """Round to nearest, halves away from zero, as FFmpeg's `fps` filter rounds timestamps (`AV_ROUND_NEAR_INF`)."""
    doubled = 2 * abs(value) + 1
    magnitude = doubled.numerator // (2 * doubled.denominator)
    return magnitude if value >= 0 else -magnitude


def fingerprint(plan: Plan, *, commands: Sequence[Sequence[str]], tools: Mapping[str, str]) -> str:
    """The plan hash: 64 hexadecimal digits over everything that can change an output byte.

    Args:
        plan: the plan itself.
        commands: the argument lists made from it, with places of files replaced by fixed words.
        tools: name and version of every program that takes part.
    """
    document: dict[str, Any] = {
        "plan": plan.model_dump(mode="json"),
        "commands": [list(command) for command in commands],
        "tools": dict(sorted(tools.items())),
    }
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def scaled_size(*, width: int, height: int, short_side: int) -> tuple[int, int]:
    """Size in even pixels of a `width` × `height` picture scaled so that its shorter side is `short_side`.

    Never more pixels than the source has on either side.
    """
    factor = Fraction(short_side, min(width, height))
    return _even(width * factor, at_most=width), _even(height * factor, at_most=height)


def _even(length: Fraction, *, at_most: int) -> int:
    rounded = 2 * round(length / 2)
    return max(2, rounded if rounded <= at_most else rounded - 2)


def _rung_plan(rung: Rung, video: VideoStream) -> RungPlan:
    width, height = scaled_size(width=video.width, height=video.height, short_side=rung.short_side)
    return RungPlan(
        name=rung.name,
        width=width,
        height=height,
        codec=rung.codec,
        profile=rung.profile,
        crf=rung.crf,
        maxrate_kbps=rung.maxrate_kbps,
        required=rung.required,
    )


def _picture(probe: Probe) -> Picture:
    video = probe.video
    return Picture(
        stream_index=video.index,
        start_ticks=round(video.scan.first_pts_seconds / video.time_base_seconds),
        tick_seconds=video.time_base_seconds,
        longest_gap_seconds=video.scan.longest_gap_seconds,
        longest_keyframe_gap_seconds=video.scan.longest_keyframe_gap_seconds,
        seekable=probe.seekable,
        deinterlace=video.is_interlaced,
        tone_map=video.is_hdr,
    )


def _audio_plan(probe: Probe, rung: AudioRung) -> AudioPlan | None:
    if not probe.audio:
        return None
    stream = probe.audio[0]
    return AudioPlan(
        name=rung.name,
        stream_index=stream.index,
        codec=rung.codec,
        bitrate_kbps=rung.bitrate_kbps,
        channels=min(rung.channels, stream.channels) or rung.channels,
        sample_rate_hz=rung.sample_rate_hz,
        language=stream.language,
    )
