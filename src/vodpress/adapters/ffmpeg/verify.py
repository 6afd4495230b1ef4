"""Looks into outputs after they were made: every frame there, at its time, keyframes where segments start."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path

from vodpress.adapters.ffmpeg.command import frame_ticks
from vodpress.adapters.isobmff import MalformedMp4, Sample, read_fragments, read_track
from vodpress.codecs import AUDIO, VIDEO, aac
from vodpress.domain.failure import Failure
from vodpress.domain.plan import AudioPlan, Plan, RungPlan
from vodpress.ports import VerifiedFile


def verify_video(path: Path, plan: Plan, rung: RungPlan, *, first_frame: int, frames: int) -> VerifiedFile:
    """Check that a fragmented MP4 holds exactly the frames `first_frame` … `first_frame + frames - 1` of a plan.

    Raises:
        Failure: `output_unverified`, with what was expected and what was found.
    """
    timescale, ticks = frame_ticks(plan.frame_rate)
    samples = _samples(path, timescale=timescale, formats=VIDEO[rung.codec].SAMPLE_ENTRIES)
    times = sorted(sample.pts for sample in samples)
    if times != [frame * ticks for frame in range(first_frame, first_frame + frames)]:
        span = f"{times[0] / ticks:g} … {times[-1] / ticks:g}" if times else "none"
        raise _unverified(path, f"frames {first_frame} … {first_frame + frames - 1}", f"{len(times)} frames, {span}")
    keyframes = [sample.pts // ticks for sample in samples if sample.sync]
    wanted = [frame for frame in range(first_frame, first_frame + frames) if frame % plan.gop_frames == 0]
    if keyframes != wanted:
        raise _unverified(path, f"keyframes at {wanted[:8]} …", f"{keyframes[:8]} …")
    return _verified(path, frames=frames, duration=frames / plan.frame_rate)


def verify_audio(path: Path, plan: Plan, audio: AudioPlan) -> VerifiedFile:
    """Check that a fragmented MP4 holds the sound from 0 to the plan's end, to within one AAC frame.

    Raises:
        Failure: `output_unverified`.
    """
    samples = _samples(path, timescale=audio.sample_rate_hz, formats=AUDIO[audio.codec].SAMPLE_ENTRIES)
    at = 0
    for sample in samples:
        if sample.pts != at:
            raise _unverified(path, f"an audio frame at sample {at}", f"one at {sample.pts}")
        at += sample.duration
    wanted = round(plan.duration_seconds * audio.sample_rate_hz)
    if abs(at - wanted) > aac.FRAME_SAMPLES:
        raise _unverified(path, f"{wanted} audio samples", f"{at}")
    return _verified(path, frames=len(samples), duration=Fraction(at, audio.sample_rate_hz))


def _samples(path: Path, *, timescale: int, formats: tuple[str, ...]) -> list[Sample]:
    try:
        track = read_track(path)
        samples = [sample for fragment in read_fragments(path, track) for sample in fragment.samples]
    except (MalformedMp4, FileNotFoundError) as error:
        raise _unverified(path, "a whole fragmented MP4", str(error)) from error
    if track.timescale != timescale or track.format not in formats:
        raise _unverified(path, f"{formats[0]} at {timescale} Hz", f"{track.format} at {track.timescale} Hz")
    return samples


def _verified(path: Path, *, frames: int, duration: Fraction) -> VerifiedFile:
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return VerifiedFile(path=path, bytes=path.stat().st_size, sha256=sha256, frames=frames, duration_seconds=duration)


def _unverified(path: Path, expected: str, found: str) -> Failure:
    return Failure("output_unverified", detail=f"{path.name}: expected {expected}, found {found}", subject=path.name)
