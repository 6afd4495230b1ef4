"""Tiny videos, a quick ladder, and the command over a home of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.cli.console import SLICE_ENCODES, Vodpress, stand_in

from vodpress.adapters.programs import Binary

FFmpeg = Callable[..., None]
StandIn = Callable[..., Path]

RUNGS = ("180p", "90p")
FRAMES_A_SLICE = 50
SLICES = 3

LADDER = """
name = "tiny"
preset = "ultrafast"
gop_seconds = 1
segment_seconds = 2
slice_seconds = 2
rungs = [
  { name = "180p", short_side = 180, crf = 35, maxrate_kbps = 500 },
  { name = "90p", short_side = 90, crf = 35, maxrate_kbps = 200 },
]
"""


@pytest.fixture
def vodpress(home: Path) -> Vodpress:
    """The command over a fresh home."""
    return Vodpress(home)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder for results, not made yet."""
    return tmp_path / "out"


@pytest.fixture(scope="session")
def ladder_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rungs in slices of 2 s, quick to encode."""
    path = tmp_path_factory.mktemp("ladder") / "tiny.toml"
    path.write_text(LADDER)
    return path


@pytest.fixture(scope="session")
def clip(make: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 s of 320 × 180 at 25 frames a second with sound: three slices."""
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    make(
        "-f", "lavfi", "-i", "testsrc2=s=320x180:r=25", "-f", "lavfi", "-i", "sine=f=440", "-t", 6,
        "-c:v", "libx264", "-preset", "ultrafast", "-g", 25, "-c:a", "aac", "-movflags", "+faststart", path,
    )  # fmt: skip
    return path


@pytest.fixture(scope="session")
def other_clip(make: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another 6 s, without sound."""
    path = tmp_path_factory.mktemp("other") / "other.mp4"
    make("-f", "lavfi", "-i", "testsrc=s=320x180:r=25", "-t", 6, "-c:v", "libx264", "-preset", "ultrafast", path)
    return path


@pytest.fixture
def replace_ffmpeg(tmp_path: Path, ffmpeg: Binary) -> StandIn:
    """`replace_ffmpeg(does, matching=…)`: see `console.stand_in`; `first_frame` matches encodes of one slice."""

    def make(does: str, *, matching: str = SLICE_ENCODES, first_frame: int | None = None) -> Path:
        wanted = matching if first_frame is None else f"trim=start_pts={first_frame}:"
        return stand_in(tmp_path, ffmpeg.path, matching=wanted, does=does)

    return make
