"""Sources that are a little out of the ordinary, through the whole command, all in one run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import Package, Process

pytestmark = pytest.mark.xdist_group("e2e")

LADDER = """
name = "one"
preset = "superfast"
rungs = [{ name = "180p", short_side = 180, maxrate_kbps = 800 }]
"""
PICTURE = ["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=3"]
SOUND = ["-f", "lavfi", "-i", "sine=d=3"]
H264 = ["-c:v", "libx264", "-preset", "superfast", "-pix_fmt", "yuv420p"]

SOURCES: dict[str, list[str]] = {
    "without-sound.mp4": [*PICTURE, *H264, "-g", "25"],
    "of-one-second.mp4": ["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=1", *H264],
    "with-one-keyframe.mp4": [*PICTURE, *SOUND, *H264, "-g", "250"],
    "language-in-capitals.mkv": [*PICTURE, *SOUND, *H264, "-g", "25", "-metadata:s:a", "language=EN"],
    "language-unknown.mkv": [*PICTURE, *SOUND, *H264, "-g", "25", "-metadata:s:a", "language=xx"],
    "upright.mp4": ["-f", "lavfi", "-i", "testsrc2=s=180x320:r=25:d=3", *SOUND, *H264, "-g", "25"],
}


@pytest.fixture(scope="module")
def packages(ffmpeg: str, process: Process, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Package]:
    """What the command made of each source."""
    folder = tmp_path_factory.mktemp("sources")
    for name, arguments in SOURCES.items():
        command = [ffmpeg, "-nostdin", "-v", "error", *arguments, str(folder / name)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return dict(zip(SOURCES, process([folder / name for name in SOURCES], LADDER), strict=True))


@pytest.mark.parametrize("name", SOURCES)
def test_is_published_whole(name: str, packages: dict[str, Package], ffprobe: str) -> None:
    package = packages[name]
    has_sound = "sine=d=3" in SOURCES[name]
    assert bool(package.manifest["audio"]) is has_sound
    assert (package.folder / package.manifest["images"]["poster"]).is_file()

    by_kind = {stream["codec_type"]: stream for stream in streams(ffprobe, package.folder / "hls" / "master.m3u8")}
    assert set(by_kind) == ({"video", "audio"} if has_sound else {"video"})
    (rendition,) = package.manifest["renditions"]
    video = by_kind["video"]
    assert (video["width"], video["height"]) == (rendition["width"], rendition["height"])
    assert int(video["nb_read_frames"]) == rendition["frames"] == round(package.duration_seconds * 25)


def streams(ffprobe: str, path: Path) -> list[dict[str, Any]]:
    wanted = "stream=codec_type,width,height,nb_read_frames"
    command = [ffprobe, "-v", "error", "-count_frames", "-show_entries", wanted, "-of", "json", f"file:{path}"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(ended.stdout)["streams"]
    return found
