"""Media for tests, made by FFmpeg on the spot, and the tools under test."""

from __future__ import annotations

import asyncio
import subprocess
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from vodpress.adapters.ffmpeg.binaries import find_ffmpeg, find_ffprobe
from vodpress.adapters.ffmpeg.limits import RunLimits
from vodpress.adapters.ffmpeg.probe import FFmpegProber, SourceLimits
from vodpress.adapters.ffmpeg.transcoder import FFmpegTranscoder
from vodpress.adapters.programs import Binary
from vodpress.domain.ladder import Ladder, parse_ladder

LIMITS = RunLimits(stall_seconds=60, ceiling_factor=3, nice=0)

FFmpeg = Callable[..., None]


@pytest.fixture(scope="session")
def ffmpeg() -> Binary:
    """The FFmpeg that vodpress uses."""
    return asyncio.run(find_ffmpeg(None))


@pytest.fixture(scope="session")
def ffprobe() -> Binary:
    """The ffprobe that vodpress uses."""
    return asyncio.run(find_ffprobe(None))


@pytest.fixture(scope="session")
def make(ffmpeg: Binary) -> FFmpeg:
    """Run FFmpeg with plain arguments; raises when it fails."""

    def run(*arguments: str | Path) -> None:
        command = [str(ffmpeg.path), "-nostdin", "-v", "error", "-y", *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    return run


@pytest.fixture
def prober(ffmpeg: Binary, ffprobe: Binary) -> FFmpegProber:
    """The prober, with wide limits."""
    sources = SourceLimits(max_duration_seconds=3600, max_pixels=8192 * 4320, max_frame_rate=240)
    return FFmpegProber(ffprobe=ffprobe, ffmpeg=ffmpeg, sources=sources, run=LIMITS)


@pytest.fixture
def transcoder(ffmpeg: Binary) -> FFmpegTranscoder:
    """The transcoder."""
    return FFmpegTranscoder(ffmpeg=ffmpeg, run=LIMITS)


@pytest.fixture(scope="session")
def ladder() -> Ladder:
    """The default ladder, with the quickest preset that reorders pictures, and slices of 4 s."""
    text = resources.files("vodpress").joinpath("ladders/default.toml").read_text()
    default = parse_ladder(tomllib.loads(text), origin="default")
    return default.model_copy(
        update={"preset": "superfast", "segment_seconds": 2.0, "gop_seconds": 1.0, "slice_seconds": 4.0}
    )
