"""Sound and picture stay together, and where they were: a white frame and a click at the same moments, every 2 s."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.e2e.conftest import Package, Process

pytestmark = pytest.mark.xdist_group("e2e")

SECONDS = 12
MOMENTS = tuple(float(second) for second in range(1, SECONDS, 2))
SAMPLE_RATE_HZ = 48_000
WIDTH, HEIGHT = 32, 18
CLICK = 0.3  # of full scale; clicks are at 0.9, and what AAC smears before them is far below
FFMPEG_SECONDS = 120

# Slices of 4 s: every border lies between two moments, so that a slice out of place shows at the next one.
LADDER = """
name = "one"
preset = "superfast"
gop_seconds = 1
segment_seconds = 2
slice_seconds = 4
rungs = [{ name = "180p", short_side = 180, crf = 25, maxrate_kbps = 800 }]
"""


@dataclass(frozen=True)
class Source:
    """How to make a source. `frame_rate` is that of the renditions; `late_seconds` how much later its sound begins."""

    name: str
    frame_rate: Fraction
    picture: str
    late_seconds: float = 0.0
    encoding: tuple[str, ...] = ("-c:a", "pcm_s16le")

    def arguments(self) -> list[str]:
        period = round(2 * self.frame_rate)
        flash = f"eq(mod(n\\,{period})\\,{period // 2})"
        picture = (
            f"color=black:s=320x180:r={self.frame_rate}:d={SECONDS},drawbox=c=white:t=fill:enable='{flash}'"
            f"{self.picture}"
        )
        local = f"(t+{self.late_seconds}+1)"  # the moment, one second on: clicks are where it is even
        sound = (
            f"aevalsrc='0.9*lt(mod({local}\\,2)\\,0.005)*gt({local}\\,1.5)*cos(2*PI*2000*mod({local}\\,2))'"
            f":s={SAMPLE_RATE_HZ}:d={SECONDS - self.late_seconds},asetpts=PTS+{self.late_seconds}/TB"
        )
        return [
            "-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound, "-copyts", "-fps_mode", "passthrough",
            "-c:v", "libx264", "-preset", "veryfast", "-g", "75", *self.encoding,
        ]  # fmt: skip


# Frames off their grid by up to 8 ms, and a third of them missing; those that are white stay where they are.
VARIABLE = (
    ",settb=1/1000,setpts='PTS+if(not(N)+eq(mod(N\\,60)\\,30)\\,0\\,(random(2)-0.5)*0.016/TB)'"
    ",select='not(n)+eq(mod(n\\,60)\\,30)+gt(random(1)\\,0.33)'"
)

SOURCES = (
    Source("constant-25.mkv", Fraction(25), ""),
    Source("constant-60.mkv", Fraction(60), ""),
    Source("variable.mkv", Fraction(30), VARIABLE),
    Source("late-sound.mkv", Fraction(25), "", late_seconds=0.5),
    Source("primed.mp4", Fraction(30), "", encoding=("-c:a", "aac", "-b:a", "192k")),
)


@dataclass(frozen=True)
class Seen:
    """When pictures turned white and when clicks began, and where sound and picture end; all in seconds."""

    flashes: npt.NDArray[np.float64]
    clicks: npt.NDArray[np.float64]
    picture_ends: float
    sound_ends: float


@pytest.fixture(scope="module")
def sources(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file for each source."""
    folder = tmp_path_factory.mktemp("sync")
    for source in SOURCES:
        command = [ffmpeg, "-nostdin", "-v", "error", *source.arguments(), str(folder / source.name)]
        subprocess.run(command, check=True, capture_output=True, timeout=FFMPEG_SECONDS)
    return {source.name: folder / source.name for source in SOURCES}


@pytest.fixture(scope="module")
def packages(sources: dict[str, Path], process: Process) -> dict[str, Package]:
    """What one run of the command made of all of them."""
    return dict(zip(sources, process(list(sources.values()), LADDER), strict=True))


@pytest.fixture
def look(ffmpeg: str, ffprobe: str) -> Callable[[Path], Seen]:
    """Decode a file or a playlist, and say what is to be seen and heard when."""

    def raw(path: Path, *arguments: str) -> bytes:
        command = [ffmpeg, "-nostdin", "-v", "error", "-xerror", "-copyts", "-i", f"file:{path}", *arguments, "-"]
        return subprocess.run(command, check=True, capture_output=True, timeout=FFMPEG_SECONDS).stdout

    def times(path: Path, stream: str) -> tuple[npt.NDArray[np.float64], float]:
        """When each frame begins, and how long the last one lasts."""
        options = ["-select_streams", stream, "-show_entries", "frame=pts_time,duration_time", "-of", "json"]
        command = [ffprobe, "-v", "error", *options, f"file:{path}"]
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=FFMPEG_SECONDS)
        frames: list[dict[str, Any]] = json.loads(ended.stdout)["frames"]
        return np.array([float(frame["pts_time"]) for frame in frames]), float(frames[-1]["duration_time"])

    def seen(path: Path) -> Seen:
        begins, last = times(path, "v:0")
        scale = f"scale={WIDTH}:{HEIGHT},format=gray"
        pictures = raw(path, "-map", "0:v:0", "-vf", scale, "-fps_mode", "passthrough", "-f", "rawvideo")
        brightness = np.frombuffer(pictures, np.uint8).reshape(-1, HEIGHT * WIDTH).mean(axis=1)
        assert len(brightness) == len(begins)
        white = brightness > 128
        flashes = begins[white & ~np.concatenate([[False], white[:-1]])]

        blocks, last_block = times(path, "a:0")
        sound_begins = blocks[0]
        samples = raw(path, "-map", "0:a:0", "-ac", "1", "-ar", str(SAMPLE_RATE_HZ), "-f", "s16le")
        level = np.abs(np.frombuffer(samples, np.int16).astype(np.float64)) / 32768
        loud = np.flatnonzero(level > CLICK) / SAMPLE_RATE_HZ + sound_begins
        clicks = loud[np.diff(loud, prepend=-1.0) > 0.5]
        return Seen(flashes, clicks, begins[-1] + last, blocks[-1] + last_block)

    return seen


def require_moments(seen: Seen, moments: Sequence[float], *, tolerance_seconds: float) -> None:
    assert seen.flashes == pytest.approx(moments, abs=tolerance_seconds)
    assert seen.clicks == pytest.approx(moments, abs=tolerance_seconds)
    assert seen.clicks == pytest.approx(seen.flashes, abs=tolerance_seconds)


@pytest.mark.parametrize("source", SOURCES, ids=[source.name for source in SOURCES])
def test_flash_and_click_stay_together(
    source: Source, sources: dict[str, Path], packages: dict[str, Package], look: Callable[[Path], Seen]
) -> None:
    require_moments(look(sources[source.name]), MOMENTS, tolerance_seconds=0.002)

    package = packages[source.name]
    assert Fraction(package.manifest["renditions"][0]["frame_rate"]) == source.frame_rate
    assert package.manifest["source"]["variable_frame_rate"] is bool(source.picture)
    seen = look(package.folder / package.manifest["playback"]["hls"])
    require_moments(seen, MOMENTS, tolerance_seconds=package.frame_seconds)
    assert seen.picture_ends == pytest.approx(package.duration_seconds, abs=package.frame_seconds)
    assert seen.sound_ends == pytest.approx(seen.picture_ends, abs=package.frame_seconds)
