"""`vodpress process` against one FFmpeg command written by hand: CPU, wall, first playable rung, second run."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from imageio_ffmpeg import get_ffmpeg_exe

from benchmarks.homes import temporary_folder

ROUNDS = 3
_VODPRESS = Path(sys.executable).with_name("vodpress")
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU and of wall time."""

    cpu: float
    wall: float


def compare(clip: Path) -> Iterator[str]:
    """Ratios of vodpress over the hand-written command, best of some rounds each, taken in turns."""
    with temporary_folder() as root:
        plan = _json("plan", str(clip), "--json", home=root / "none")
        length = plan["plan"]["frames"] / _rate(plan["plan"]["frame_rate"])
        yield f"clip: {clip.name}, {length:.1f} s; rungs {', '.join(rung['name'] for rung in plan['rungs'])}"
        cold = _prepare_home(root / "home")
        by_hand, ours, first, second = [], [], [], []
        for number in range(ROUNDS):
            by_hand.append(_by_hand(clip, plan, root / f"hand-{number}"))
            home = root / "home"
            shutil.rmtree(home / "storage", ignore_errors=True)
            _forget(home)
            cost, playable = _process(clip, home, root / f"out-{number}")
            ours.append(cost)
            first.append(playable)
            second.append(_process(clip, home, root / f"again-{number}")[0])
        best_hand = Cost(min(cost.cpu for cost in by_hand), min(cost.wall for cost in by_hand))
        best_ours = Cost(min(cost.cpu for cost in ours), min(cost.wall for cost in ours))
        best_second = min(cost.wall for cost in second)
        yield f"hand-written FFmpeg: {best_hand.cpu:.1f} CPU s, {best_hand.wall:.1f} s"
        yield f"vodpress process:    {best_ours.cpu:.1f} CPU s, {best_ours.wall:.1f} s"
        yield f"CPU ratio:  {best_ours.cpu / best_hand.cpu:.3f}   (target ≤ 1.05)"
        yield f"wall ratio: {best_ours.wall / best_hand.wall:.3f}   (target ≤ 1.00)"
        yield f"time to the first playable rung / hand-written wall: {min(first) / best_hand.wall:.3f}"
        yield f"second run / first run, wall: {best_second / best_ours.wall:.3f} ({best_second:.2f} s, nothing encoded)"
        yield f"cold start of the embedded database (once in a home's life, not in the above): {cold:.2f} s"


def _by_hand(clip: Path, plan: Mapping[str, Any], folder: Path) -> Cost:
    """One FFmpeg command: one decode, every rung with the same settings, segmented to fragmented MP4 for HLS."""
    folder.mkdir()
    made = plan["plan"]
    rungs = made["rungs"]
    gop, rate = made["gop_frames"], made["frame_rate"]
    seconds = made["segment_frames"] / _rate(rate)
    labels = "".join(f"[s{number}]" for number in range(len(rungs)))
    graph = f"[0:v:0]fps={rate},split={len(rungs)}{labels};" + ";".join(
        f"[s{number}]scale={rung['width']}:{rung['height']},setsar=1,format=yuv420p[v{number}]"
        for number, rung in enumerate(rungs)
    )
    command = [_ffmpeg(), "-nostdin", "-v", "error", "-y", "-i", str(clip), "-filter_complex", graph]
    for number, rung in enumerate(rungs):
        most = rung["maxrate_kbps"]
        command += [
            "-map",
            f"[v{number}]",
            f"-crf:v:{number}",
            str(rung["crf"]),
            f"-profile:v:{number}",
            rung["profile"],
        ]
        command += [f"-maxrate:v:{number}", f"{most}k", f"-bufsize:v:{number}", f"{2 * most}k"]
    command += ["-map", "0:a:0?", "-c:v", "libx264", "-preset", made["preset"], "-g", str(gop), "-keyint_min", str(gop)]
    command += ["-sc_threshold", "0", "-flags:v", "+cgop", "-c:a", "aac", "-b:a", "128k", "-ac", "2", "-ar", "48000"]
    streams = [f"v:{number},agroup:audio,name:{rung['name']}" for number, rung in enumerate(rungs)]
    if made["audio"]:
        streams.append("a:0,agroup:audio,name:audio")
    command += ["-f", "hls", "-hls_time", f"{seconds:.3f}", "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4"]
    command += ["-master_pl_name", "master.m3u8", "-var_stream_map", " ".join(streams)]
    command += ["-hls_segment_filename", str(folder / "%v-%d.m4s"), "-hls_fmp4_init_filename", "%v-init.mp4"]
    before, begun = _children_cpu(), time.monotonic()
    subprocess.run([*command, str(folder / "%v.m3u8")], check=True)
    return Cost(_children_cpu() - before, time.monotonic() - begun)


def _ffmpeg() -> str:
    """The FFmpeg that vodpress uses, so that both sides run the same program."""
    return os.environ.get("VODPRESS_FFMPEG") or get_ffmpeg_exe()


def _process(clip: Path, home: Path, out: Path) -> tuple[Cost, float]:
    """One run; also when the first video rendition was whole. The database's CPU is counted, too."""
    database = _database_cpu(home)
    before, begun = _children_cpu(), time.monotonic()
    command = [str(_VODPRESS), "process", str(clip), "--out", str(out), "--json"]
    child = subprocess.Popen(command, env=_environment(home), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    playable = None
    while child.poll() is None:
        if playable is None and any(home.glob("storage/videos/*/*/*/*p/*p.mp4")):
            playable = time.monotonic() - begun
        database = max(database, _database_cpu(home))
        time.sleep(_POLL_SECONDS)
    wall = time.monotonic() - begun
    if child.returncode != 0:
        raise RuntimeError(f"vodpress process ended with {child.returncode}")
    return Cost(_children_cpu() - before + database, wall), playable or wall


def _database_cpu(home: Path) -> float:
    """CPU seconds of the home's PostgreSQL so far: it is nobody's child, so no exit status tells."""
    total = 0.0
    for process in psutil.process_iter(["name", "cmdline"]):
        try:
            line = " ".join(process.info["cmdline"] or ())
            parent = process.parent()
            of_home = str(home) in line or (parent is not None and str(home) in " ".join(parent.cmdline()))
            if of_home and (process.info["name"] or "").startswith("postgres"):
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.Error:
            continue
    return total


def _prepare_home(home: Path) -> float:
    """Make the home's database; returns what that took more than the next start."""
    begun = time.monotonic()
    _run("migrate", home=home)
    cold = time.monotonic() - begun
    begun = time.monotonic()
    _run("migrate", home=home)
    return cold - (time.monotonic() - begun)


def _forget(home: Path) -> None:
    assets = _json("asset", "list", "--json", home=home)
    for asset in assets:
        _run("asset", "delete", asset["asset"], "--yes", home=home)


def _run(*arguments: str, home: Path) -> str:
    done = subprocess.run(
        [str(_VODPRESS), *arguments], env=_environment(home), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _json(*arguments: str, home: Path) -> Any:
    return json.loads(_run(*arguments, home=home))


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "VODPRESS_HOME": str(home), "VODPRESS_LOG_LEVEL": "error", "VODPRESS_NICE": "0"}


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _rate(text: str) -> float:
    numerator, _, denominator = text.partition("/")
    return int(numerator) / int(denominator or 1)
