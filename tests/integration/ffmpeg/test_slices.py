"""Slices against an unsplit encode of the same source: the same frames, at the same times, with the same picture."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from vodpress.adapters.ffmpeg.command import frame_ticks
from vodpress.adapters.ffmpeg.probe import FFmpegProber
from vodpress.adapters.ffmpeg.transcoder import FFmpegTranscoder
from vodpress.adapters.isobmff import read_fragments, read_track
from vodpress.adapters.programs import Binary
from vodpress.domain.failure import Failure
from vodpress.domain.ladder import Ladder
from vodpress.domain.plan import Plan, Slice, make_plan
from vodpress.ports import Progress

pytestmark = pytest.mark.timeout(240)

PATTERN = "testsrc2=s=256x144:d=13"
SOURCES: dict[str, list[str]] = {
    "constant-25.mp4": ["-f", "lavfi", "-i", f"{PATTERN}:r=25", "-c:v", "libx264", "-preset", "ultrafast", "-g", "250"],
    "constant-2997.ts": [
        "-f", "lavfi", "-i", f"{PATTERN}:r=30000/1001", "-c:v", "libx264", "-preset", "veryfast", "-g", "45",
        "-x264-params", "open-gop=1", "-f", "mpegts",
    ],
    "constant-mpeg2.mpg": ["-f", "lavfi", "-i", f"{PATTERN}:r=25", "-c:v", "mpeg2video", "-bf", "2", "-b:v", "2M"],
    "constant-25.avi": ["-f", "lavfi", "-i", f"{PATTERN}:r=25", "-c:v", "mpeg4", "-bf", "2", "-g", "40", "-q:v", "3"],
    "constant-23976.mkv": [
        "-f", "lavfi", "-i", f"{PATTERN}:r=24000/1001", "-c:v", "libx264", "-preset", "veryfast", "-g", "60",
    ],
    "variable.mp4": [
        "-f", "lavfi", "-i", f"{PATTERN}:r=30", "-vf", "select='gt(random(7)\\,0.4)'", "-fps_mode", "passthrough",
        "-c:v", "libx264", "-preset", "veryfast", "-g", "60",
    ],
    "variable-with-pause.mkv": [
        "-f", "lavfi", "-i", f"{PATTERN}:r=30", "-vf", "select='gt(random(3)\\,0.3)*not(between(t\\,3.2\\,5.1))'",
        "-fps_mode", "passthrough", "-c:v", "libx264", "-preset", "veryfast", "-g", "60",
    ],
    "late-start.mp4": [
        "-f", "lavfi", "-i", f"{PATTERN}:r=25", "-vf", "setpts=PTS+1.48/TB", "-c:v", "libx264", "-preset", "veryfast",
        "-copyts", "-avoid_negative_ts", "disabled",
    ],
}  # fmt: skip


async def follow(progress: Progress) -> None:
    assert 0 <= progress.done_seconds <= progress.total_seconds


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, make: Callable[..., None], tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    make(*SOURCES[str(request.param)], path)
    return path


async def encode(transcoder: FFmpegTranscoder, source: Path, plan: Plan, folder: Path) -> Path:
    """All slices of the only rung, stitched."""
    parts = []
    for part in plan.slices:
        own = folder / str(part.index)
        own.mkdir(parents=True)
        report = await transcoder.encode_slice(source, plan, part, plan.rungs, own, follow)
        assert not report.failures
        parts.append(report.outputs[plan.rungs[0].name].path)
    output = folder / f"{plan.rungs[0].name}.mp4"
    await transcoder.stitch(parts, plan, output)
    return output


def pictures(ffmpeg: Binary, path: Path, *filters: str) -> np.ndarray:
    """Every decoded frame, grey and small: frames × height × width."""
    graph = ",".join([*filters, "scale=128:72", "format=gray"])
    command = [str(ffmpeg.path), "-v", "error", "-copyts", "-i", str(path), "-vf", graph, "-fps_mode", "passthrough"]
    raw = subprocess.run([*command, "-f", "rawvideo", "-"], check=True, capture_output=True, timeout=120).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, 72, 128).astype(np.int16)


def times_and_keyframes(path: Path, plan: Plan) -> tuple[list[int], list[int]]:
    _, ticks = frame_ticks(plan.frame_rate)
    track = read_track(path)
    samples = [sample for fragment in read_fragments(path, track) for sample in fragment.samples]
    times = sorted(sample.pts for sample in samples)
    assert all(time % ticks == 0 for time in times)
    return [time // ticks for time in times], [sample.pts // ticks for sample in samples if sample.sync]


async def test_stitched_equals_unsplit(
    source: Path, prober: FFmpegProber, transcoder: FFmpegTranscoder, ladder: Ladder, ffmpeg: Binary, tmp_path: Path
) -> None:
    plan = make_plan(await prober.probe(source), ladder)
    assert len(plan.slices) == 3
    whole = plan.model_copy(update={"slices": (Slice(index=0, first_frame=0, frames=plan.frames),)})

    stitched = await encode(transcoder, source, plan, tmp_path / "slices")
    unsplit = await encode(transcoder, source, whole, tmp_path / "whole")

    times, keyframes = times_and_keyframes(stitched, plan)
    assert times == list(range(plan.frames))
    assert keyframes == list(range(0, plan.frames, plan.gop_frames))
    assert (times, keyframes) == times_and_keyframes(unsplit, plan)

    ours, theirs = pictures(ffmpeg, stitched), pictures(ffmpeg, unsplit)
    assert len(ours) == len(theirs) == plan.frames
    noise = np.abs(ours - theirs).mean(axis=(1, 2))
    assert noise.max() < 3, f"frame {noise.argmax()} differs by {noise.max():.1f} grey levels"


async def test_every_frame_is_the_one_on_screen_in_the_source(
    source: Path, prober: FFmpegProber, transcoder: FFmpegTranscoder, ladder: Ladder, ffmpeg: Binary, tmp_path: Path
) -> None:
    probe = await prober.probe(source)
    plan = make_plan(probe, ladder)
    stitched = pictures(ffmpeg, await encode(transcoder, source, plan, tmp_path / "slices"))
    grid = pictures(ffmpeg, source, f"setpts=PTS-{probe.video.start_ticks}", f"fps={plan.frame_rate}")
    assert len(grid) >= plan.frames - 1  # FFmpeg guesses how long the last frame of an irregular source lasts
    for frame in range(min(len(grid), plan.frames)):
        own = np.abs(stitched[frame] - grid[frame]).mean()
        # A frame that is a neighbour's copy is as near to that; one that moved must be nearest to its own place.
        for other in (frame - 1, frame + 1):
            if 0 <= other < len(grid) and np.abs(grid[other] - grid[frame]).mean() > 0.5:
                assert own < np.abs(stitched[frame] - grid[other]).mean(), f"frame {frame} looks like {other}"


async def test_grouping_changes_no_byte(
    make: Callable[..., None], prober: FFmpegProber, transcoder: FFmpegTranscoder, ladder: Ladder, tmp_path: Path
) -> None:
    source = tmp_path / "source.mp4"
    make("-f", "lavfi", "-i", "testsrc2=s=1280x720:r=25:d=5", "-c:v", "libx264", "-preset", "ultrafast", source)
    plan = make_plan(await prober.probe(source), ladder)
    assert len(plan.rungs) == 3
    part = plan.slices[0]

    async def hashes(rungs: tuple[int, ...], name: str) -> dict[str, str]:
        folder = tmp_path / name
        folder.mkdir()
        chosen = [plan.rungs[number] for number in rungs]
        report = await transcoder.encode_slice(source, plan, part, chosen, folder, follow)
        return {rung: output.sha256 for rung, output in report.outputs.items()}

    together = await hashes((0, 1, 2), "together")
    assert await hashes((2, 0), "two") == {name: together[name] for name in (plan.rungs[2].name, plan.rungs[0].name)}
    assert await hashes((1,), "one") == {plan.rungs[1].name: together[plan.rungs[1].name]}


async def test_a_slice_is_not_taken_for_another(
    make: Callable[..., None], prober: FFmpegProber, transcoder: FFmpegTranscoder, ladder: Ladder, tmp_path: Path
) -> None:
    source = tmp_path / "source.mp4"
    make("-f", "lavfi", "-i", f"{PATTERN}:r=25", "-c:v", "libx264", "-preset", "ultrafast", source)
    plan = make_plan(await prober.probe(source), ladder)
    rung = plan.rungs[0]
    report = await transcoder.encode_slice(source, plan, plan.slices[1], plan.rungs, tmp_path, follow)
    path = report.outputs[rung.name].path

    found = await transcoder.verify_slice(path, plan, plan.slices[1], rung)
    assert found == report.outputs[rung.name]
    with pytest.raises(Failure, match="output_unverified"):
        await transcoder.verify_slice(path, plan, plan.slices[0], rung)

    whole = path.read_bytes()
    for cut in (len(whole) - 1, len(whole) // 2, 40, 0):
        path.write_bytes(whole[:cut])
        with pytest.raises(Failure, match="output_unverified"):
            await transcoder.verify_slice(path, plan, plan.slices[1], rung)
    path.unlink()
    with pytest.raises(Failure, match="output_unverified"):
        await transcoder.verify_slice(path, plan, plan.slices[1], rung)


async def test_slices_of_different_encodes_are_not_joined(
    make: Callable[..., None], prober: FFmpegProber, transcoder: FFmpegTranscoder, ladder: Ladder, tmp_path: Path
) -> None:
    source = tmp_path / "source.mp4"
    make("-f", "lavfi", "-i", f"{PATTERN}:r=25", "-c:v", "libx264", "-preset", "ultrafast", source)
    plan = make_plan(await prober.probe(source), ladder)
    other = plan.model_copy(update={"preset": "medium"})
    parts = []
    for number, used in enumerate((plan, other, plan)):
        folder = tmp_path / str(number)
        folder.mkdir()
        report = await transcoder.encode_slice(source, used, plan.slices[number], plan.rungs, folder, follow)
        parts.append(report.outputs[plan.rungs[0].name].path)
    output = tmp_path / f"{plan.rungs[0].name}.mp4"
    with pytest.raises(Failure, match="output_unverified"):
        await transcoder.stitch(parts, plan, output)
    with pytest.raises(Failure, match="output_unverified"):
        await transcoder.stitch([parts[0], parts[2]], plan, output)
