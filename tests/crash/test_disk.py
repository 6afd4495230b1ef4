"""Disks that fill up while work goes on: a clear verdict, nothing half finished, and another try succeeds."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.conftest import SLICES, StandIn
from tests.integration.cli.console import AT_ONCE, AUDIO_ENCODES, Vodpress

Mount = Callable[[int], Path]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Mount]:
    """`small_disk(bytes)`: a folder that is a file system of that size."""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        arguments: list[str | Path] = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        done = os.geteuid() == 0 and subprocess.run(arguments, capture_output=True, check=False).returncode == 0
        if not done:
            pytest.skip("Only root, where it may mount, can make a file system for this test.")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def command(clip: Path, ladder_file: Path) -> tuple[str | Path, ...]:
    """Process the clip."""
    return ("process", clip, "--ladder", ladder_file, "--json")


def test_a_scratch_disk_that_fills_up(
    vodpress: Vodpress, command: tuple[str | Path, ...], out: Path, small_disk: Mount, replace_ffmpeg: StandIn
) -> None:
    scratch = small_disk(8 << 20)
    neighbour = scratch / "neighbour"
    filled = replace_ffmpeg(f'cat /dev/zero > {neighbour} 2>&-; "$REAL" "$@"; status=$?; rm {neighbour}; exit $status')
    settings: dict[str, Any] = {"scratch_dir": scratch, "disk_reserve_bytes": 0, "encode_jobs": 1, **AT_ONCE}
    full = vodpress.run(*command, "--out", out, ffmpeg=filled, **settings)
    assert full.status == 5, full
    assert full.document["state"] == "processing"
    assert full.document["reason"]["code"] == "disk_full"
    assert full.document["manifest"] is None
    assert list(out.iterdir()) == []
    assert list(scratch.iterdir()) == []
    assert [key for key in vodpress.objects("videos/") if "180p" in key] == []

    again = vodpress.run(*command, "--out", out, **settings)
    assert again.status == 0, again
    assert [path.name for path in out.iterdir()] == ["clip"]
    assert list(scratch.iterdir()) == []


def test_a_storage_disk_that_fills_up(
    vodpress: Vodpress, command: tuple[str | Path, ...], clip: Path, out: Path, small_disk: Mount
) -> None:
    storage = small_disk(clip.stat().st_size + (64 << 10))
    full = vodpress.run(*command, "--out", out, storage_url=storage, **AT_ONCE)
    assert full.status == 5, full
    assert full.document["state"] == "processing"
    assert full.document["reason"]["code"] == "disk_full"
    assert list(out.iterdir()) == []
    assert list((storage / ".partial").iterdir()) == []

    subprocess.run(["mount", "-o", "remount,size=64m", storage], check=True)
    again = vodpress.run(*command, "--out", out, storage_url=storage)
    assert again.status == 0, again
    assert again.document["asset"] == full.document["asset"]
    assert [path.name for path in out.iterdir()] == ["clip"]


def test_a_source_that_the_storage_has_no_room_for(
    vodpress: Vodpress, command: tuple[str | Path, ...], clip: Path, out: Path, small_disk: Mount
) -> None:
    storage = small_disk(clip.stat().st_size // 2)
    full = vodpress.run(*command, "--out", out, storage_url=storage)
    assert full.status == 5, full
    assert (full.document["state"], full.document["asset"]) == ("rejected", None)
    assert full.document["reason"]["code"] == "disk_full"
    assert [path for path in storage.rglob("*") if path.is_file()] == []
    assert vodpress.json("asset", "list") == []


def test_an_output_disk_that_fills_up(
    vodpress: Vodpress, command: tuple[str | Path, ...], out: Path, small_disk: Mount
) -> None:
    small = small_disk(128 << 10)
    full = vodpress.run(*command, "--out", small)
    assert full.status == 5, full
    assert full.document["state"] == "ready"
    assert full.document["reason"]["code"] == "disk_full"
    assert full.document["manifest"] is None
    assert list(small.iterdir()) == []
    again = vodpress.run(*command, "--out", out)
    assert again.status == 0, again
    assert again.document["reused"]


def test_a_job_that_waits_for_space_goes_on_when_there_is_some(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, small_disk: Mount, tmp_path: Path
) -> None:
    large = tmp_path / "large.toml"
    large.write_text(ladder_file.read_text().replace("maxrate_kbps = 500", "maxrate_kbps = 50000"))
    command = ("process", clip, "--ladder", large, "--out", out, "--json")
    short = vodpress.run(*command, scratch_dir=small_disk(4 * clip.stat().st_size), disk_reserve_bytes=0)
    assert short.status == 7, short
    assert short.document["reason"]["code"] == "disk_reserve_short"
    assert short.document["state"] == "processing"
    assert list(out.iterdir()) == []
    again = vodpress.run(*command)
    assert again.status == 0, again
    assert [job["attempt"] for job in vodpress.json("queue", "list", "--queue", "ingest")] == [1]


def test_what_was_given_up_is_graver_than_what_waits(
    vodpress: Vodpress, command: tuple[str | Path, ...], out: Path, small_disk: Mount, replace_ffmpeg: StandIn
) -> None:
    scratch = small_disk(8 << 20)
    spoil = replace_ffmpeg(f"cat /dev/zero > {scratch}/neighbour 2>&-; exit 1", matching=AUDIO_ENCODES)
    settings: dict[str, Any] = {"scratch_dir": scratch, "disk_reserve_bytes": 0, "encode_jobs": 1}
    ended = vodpress.run(*command, "--out", out, ffmpeg=spoil, media_retry_delays_seconds=",", **settings)
    assert ended.status == 5, ended
    assert ended.document["reason"]["code"] == "tool_crashed"
    shown = vodpress.json("asset", "show", ended.document["asset"])
    assert shown["jobs"]["delayed"] == SLICES, "they wait for space"
