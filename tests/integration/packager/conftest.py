"""Renditions to package, made by FFmpeg in both shapes of MP4, and the packager under test."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from vodpress.adapters.packager.binary import find_packager
from vodpress.adapters.packager.packager import ShakaPackager
from vodpress.adapters.programs import Binary
from vodpress.codecs import aac
from vodpress.domain.plan import AudioPlan, Picture, Plan, RungPlan, Slice
from vodpress.ports import PackageResult, TrackInput

SECONDS = 20
SIZES = {"360p": (640, 360), "240p": (426, 240), "144p": (256, 144)}
FRAGMENTED = "+frag_keyframe+empty_moov+default_base_moof+negative_cts_offsets+frag_discont+skip_trailer"
SHAPES = {"plain": "+faststart", "fragmented": FRAGMENTED}
RATES = {"25": Fraction(25), "30000/1001": Fraction(30000, 1001)}

Run = Callable[..., None]


@dataclass(frozen=True)
class Inputs:
    """A plan and the renditions that were made for it."""

    plan: Plan
    tracks: tuple[TrackInput, ...]


@dataclass(frozen=True)
class Packaged:
    """A package as the packager left it; for looking only."""

    plan: Plan
    tracks: tuple[TrackInput, ...]
    folder: Path
    result: PackageResult


@pytest.fixture(scope="session")
def packager_binary() -> Binary:
    """The packager that vodpress uses."""
    return asyncio.run(find_packager(None))


@pytest.fixture(scope="session")
def packager(packager_binary: Binary) -> ShakaPackager:
    """The packager under test."""
    return ShakaPackager(packager_binary, ceiling_factor=3, nice=0)


@pytest.fixture(scope="session")
def inputs(make: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Inputs]:
    """`inputs(rate, shape)`: 20 s in three rungs with sound; each is encoded once a session."""

    @cache
    def made(rate: str, shape: str) -> Inputs:
        plan = plan_for(RATES[rate], seconds=SECONDS)
        folder = tmp_path_factory.mktemp(f"inputs-{shape}")
        return Inputs(plan, encode(make, plan, folder, shape=shape))

    return made


@pytest.fixture(scope="session")
def package(
    inputs: Callable[[str, str], Inputs], packager: ShakaPackager, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Packaged]:
    """`package(rate, shape)`: a package of those inputs, made once a session."""

    @cache
    def made(rate: str, shape: str) -> Packaged:
        given = inputs(rate, shape)
        folder = tmp_path_factory.mktemp("package")
        result = asyncio.run(packager.package(given.tracks, given.plan, folder))
        return Packaged(given.plan, given.tracks, folder, result)

    return made


@pytest.fixture
def own_copy(package: Callable[[str, str], Packaged], tmp_path: Path) -> Packaged:
    """A package at 25 frames a second that a test may damage."""
    made = package("25", "fragmented")
    folder = tmp_path / "package"
    shutil.copytree(made.folder, folder)
    return Packaged(made.plan, made.tracks, folder, made.result)


def plan_for(rate: Fraction, *, seconds: float, audio: bool = True, language: str = "eng") -> Plan:
    """A plan of three rungs with GOPs of 2 s and segments of 6 s, as the default ladder has them."""
    frames = round(seconds * rate)
    gop = round(2 * rate)
    return Plan(
        frame_rate=rate,
        frames=frames,
        gop_frames=gop,
        segment_frames=3 * gop,
        preset="ultrafast",
        picture=Picture(
            stream_index=0,
            start_ticks=0,
            tick_seconds=1 / rate,
            longest_gap_seconds=1 / rate,
            longest_keyframe_gap_seconds=gop / rate,
            seekable=True,
            deinterlace=False,
            tone_map=False,
        ),
        rungs=tuple(
            RungPlan(
                name=name,
                width=width,
                height=height,
                codec="h264",
                profile="main",
                crf=28,
                maxrate_kbps=1000,
                required=True,
            )
            for name, (width, height) in SIZES.items()
        ),
        audio=AudioPlan(
            name="audio",
            stream_index=1,
            codec="aac",
            bitrate_kbps=96,
            channels=2,
            sample_rate_hz=48000,
            language=language,
        )
        if audio
        else None,
        slices=(Slice(index=0, first_frame=0, frames=frames),),
    )


def encode(make: Run, plan: Plan, folder: Path, *, shape: str, picture: str = "null") -> tuple[TrackInput, ...]:
    """Make every rendition of a plan as one MP4 each; `picture` is a filter that may spoil it."""
    tracks = []
    for rung in plan.rungs:
        path = folder / f"{rung.name}.mp4"
        make(
            "-f", "lavfi", "-i", f"testsrc2=s={rung.width}x{rung.height}:r={plan.frame_rate}", "-vf", picture,
            "-fps_mode", "passthrough", "-frames:v", plan.frames,
            "-c:v", "libx264", "-preset", "veryfast", "-profile:v", rung.profile, "-crf", rung.crf,
            "-pix_fmt", "yuv420p", "-g", plan.gop_frames, "-keyint_min", plan.gop_frames, "-sc_threshold", 0,
            "-flags:v", "+cgop+bitexact", "-threads:v", 1, "-fflags", "+bitexact", "-movflags", SHAPES[shape], path,
        )  # fmt: skip
        tracks.append(TrackInput(name=rung.name, path=path, rung=rung, audio=None))
    if plan.audio is not None:
        path = folder / "audio.mp4"
        samples = round(plan.duration_seconds * plan.audio.sample_rate_hz)
        # The plain file has priming, hidden by an edit list; the fragmented one is as vodpress makes it.
        encoder = ["-c:a", "aac", "-b:a", f"{plan.audio.bitrate_kbps}k", "-ac", plan.audio.channels]
        if shape == "fragmented":
            encoder = [*aac.arguments(plan.audio), "-frag_duration", 2_000_000]
        make(
            "-f", "lavfi", "-i", f"sine=f=440:r={plan.audio.sample_rate_hz}", "-af", f"atrim=end_sample={samples}",
            *encoder, "-flags:a", "+bitexact", "-fflags", "+bitexact", "-movflags", SHAPES[shape], path,
        )  # fmt: skip
        tracks.append(TrackInput(name=plan.audio.name, path=path, rung=None, audio=plan.audio))
    return tuple(tracks)
