"""`vodpress probe` and `vodpress plan` look and touch nothing; what a plan says is what is done."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import temporary_home
from tests.integration.cli.conftest import FRAMES_A_SLICE, RUNGS, SLICES
from tests.integration.cli.console import Vodpress
from tests.integration.conftest import FFmpeg

from vodpress.adapters.programs import Binary


@pytest.fixture
def looking(tmp_path: Path) -> Iterator[Vodpress]:
    """The command over a home that is not there, and must not be there afterwards."""
    home = tmp_path / "home"
    yield Vodpress(home)
    assert not home.exists()


def test_probe_says_what_a_file_is(looking: Vodpress, clip: Path) -> None:
    found = looking.json("probe", clip)
    assert found["bytes"] == clip.stat().st_size
    video = found["video"]
    assert (video["codec"], video["width"], video["height"]) == ("h264", 320, 180)
    assert video["scan"]["packets"] == 150
    assert [stream["codec"] for stream in found["audio"]] == ["aac"]
    plain = looking.run("probe", clip)
    assert plain.status == 0
    assert "h264 320×180, 25.000 frames/s (constant), 150 frames, SDR" in plain.stdout


def test_plan_says_what_would_be_made(looking: Vodpress, clip: Path, ladder_file: Path) -> None:
    planned = looking.json("plan", clip, "--ladder", ladder_file)
    assert [rung["name"] for rung in planned["rungs"]] == list(RUNGS)
    assert len(planned["plan"]["slices"]) == SLICES
    tools = [command[0] for command in planned["commands"]]
    assert tools == ["ffmpeg"] * (SLICES + 1) + ["packager"]
    plain = looking.run("plan", clip, "--ladder", ladder_file)
    assert planned["plan_hash"] in plain.stdout
    assert "180p: 320×180 h264" in plain.stdout


@pytest.mark.parametrize("command", ["probe", "plan"])
def test_bad_input_is_told_as_in_processing(command: str, looking: Vodpress, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video\n")
    for file, status, code in (("text.mp4", 6, "source_unreadable"), ("none.mp4", 2, "file_not_found")):
        ended = looking.run(command, tmp_path / file, "--json")
        assert ended.status == ended.document["exit_code"] == status
        assert ended.document["reason"]["code"] == code
    missing = looking.run(command, tmp_path / "text.mp4", "--json", ffprobe="/nonexistent")
    assert (missing.status, missing.document["reason"]["code"]) == (5, "tool_missing")


def test_a_plan_is_what_processing_does(
    vodpress: Vodpress, looking: Vodpress, clip: Path, ladder_file: Path, out: Path, ffmpeg: Binary, tmp_path: Path
) -> None:
    planned = looking.json("plan", clip, "--ladder", ladder_file)
    ended = vodpress.run("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    assert ended.status == 0, ended
    manifest = json.loads(Path(ended.document["manifest"]).read_bytes())
    assert planned["plan_hash"] == manifest["plan_hash"]

    recorded = vodpress.slices()
    encodes = [command for command in planned["commands"] if command[0] == "ffmpeg"]
    assert len(encodes) == SLICES + 1
    for index, command in enumerate(encodes):
        made = run_by_hand(command, ffmpeg, clip, tmp_path / str(index))
        names = ["audio"] if index == SLICES else list(RUNGS)
        expected = {name: recorded[name, 0 if name == "audio" else index]["sha256"] for name in names}
        assert made == expected


def run_by_hand(command: list[str], ffmpeg: Binary, source: Path, folder: Path) -> dict[str, str]:
    """Run a command of a plan; output name → SHA-256."""
    folder.mkdir()
    arguments = [
        str(source).join(argument.split("SOURCE")).replace("OUTPUT/", f"{folder}/") for argument in command[1:]
    ]
    subprocess.run([ffmpeg.path, *arguments], check=True, capture_output=True, timeout=60)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_slices_are_whole_segments(looking: Vodpress, clip: Path, ladder_file: Path) -> None:
    plan = looking.json("plan", clip, "--ladder", ladder_file)["plan"]
    assert [(part["first_frame"], part["frames"]) for part in plan["slices"]] == [
        (index * FRAMES_A_SLICE, FRAMES_A_SLICE) for index in range(SLICES)
    ]
    assert plan["segment_frames"] == FRAMES_A_SLICE
    assert plan["gop_frames"] == FRAMES_A_SLICE / 2


@pytest.mark.parametrize(
    ("size", "rungs"),
    [
        ("1280x720", [("720p", 1280, 720), ("480p", 854, 480), ("360p", 640, 360)]),
        ("720x1280", [("720p", 720, 1280), ("480p", 480, 854), ("360p", 360, 640)]),
        ("300x200", [("200p", 300, 200)]),
        ("640x359", [("359p", 640, 358)]),
    ],
    ids=["landscape", "portrait", "200-lines", "odd"],
)
def test_the_default_ladder_measures_the_short_side_and_never_upscales(
    size: str, rungs: list[tuple[str, int, int]], looking: Vodpress, make: FFmpeg, tmp_path: Path
) -> None:
    source = tmp_path / "source.mp4"
    codec = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p")  # takes odd sizes
    picture = f"color=gray:s={size}:r=25"
    make("-f", "lavfi", "-i", picture, "-t", 1, *codec, source)
    planned = looking.json("plan", source)
    assert [(rung["name"], rung["width"], rung["height"]) for rung in planned["rungs"]] == rungs
    assert planned["ladder"] == "default"


@pytest.mark.parametrize(
    ("rate", "cap", "planned"),
    [("60", None, "60"), ("120", None, "60"), ("30000/1001", None, "30000/1001"), ("50", 30, "25")],
)
def test_the_frame_rate_is_kept_up_to_a_cap(
    rate: str, cap: int | None, planned: str, looking: Vodpress, make: FFmpeg, ladder_file: Path, tmp_path: Path
) -> None:
    source, ladder = tmp_path / "source.mp4", tmp_path / "ladder.toml"
    make("-f", "lavfi", "-i", f"color=gray:s=64x48:r={rate}", "-t", 1, "-c:v", "libx264", source)
    ladder.write_text((f"frame_rate_cap = {cap}\n" if cap else "") + ladder_file.read_text())
    plan: dict[str, Any] = looking.json("plan", source, "--ladder", ladder)["plan"]
    assert plan["frame_rate"] == planned


def test_a_ladder_of_the_home_goes_by_its_name(clip: Path, ladder_file: Path) -> None:
    with temporary_home() as home:
        (home / "ladders").mkdir()
        (home / "ladders" / "mine.toml").write_text(ladder_file.read_text())
        planned = Vodpress(home).json("plan", clip, "--ladder", "mine")
        assert [rung["name"] for rung in planned["rungs"]] == list(RUNGS)
        assert [path.name for path in home.iterdir()] == ["ladders"]
