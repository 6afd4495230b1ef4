"""SIGKILL: of a run in the middle of an encode, and of every run by a job that kills whoever takes it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tests.integration.cli.conftest import FRAMES_A_SLICE, StandIn
from tests.integration.cli.console import AT_ONCE, CRAWL, Vodpress, assert_gone, wait_for_recorded_slice, wait_until
from tests.integration.conftest import FFmpeg

LEASE_SECONDS = 3


def encode_attempts(vodpress: Vodpress) -> dict[int, int]:
    """Slice → attempt of the newest job of every video slice."""
    jobs = vodpress.json("queue", "list", "--queue", "encode")
    return {job["args"]["index"]: job["attempt"] for job in reversed(jobs) if job["args"].get("kind") == "video"}


def test_another_run_takes_over_from_a_killed_one(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    crawl = replace_ffmpeg(CRAWL, first_frame=FRAMES_A_SLICE)
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    with vodpress.start(*command, ffmpeg=crawl, encode_jobs=1, lease_seconds=LEASE_SECONDS) as running:
        wait_for_recorded_slice(vodpress, running, "180p")
        wait_until(lambda: running.tools("-readrate"), "an encode crawls")
        tools = running.tools()
        running.process.kill()
        assert running.end().status == -signal.SIGKILL
    assert_gone(tools)
    vodpress.await_stopped_server()
    before = {key: part for key, part in vodpress.slices().items() if part["state"] == "completed"}
    assert encode_attempts(vodpress)[1] == 1, "the attempt was counted before the work"

    again = vodpress.run(*command, lease_seconds=LEASE_SECONDS)
    assert again.status == 0, again
    assert again.document["state"] == "ready"
    assert "job rescued from a dead worker" in again.stderr
    after = vodpress.slices()
    assert {key: after[key] for key in before} == before, "recorded slices were encoded again"
    assert encode_attempts(vodpress)[0] == 1
    assert encode_attempts(vodpress)[1] == 2
    assert after["180p", 1]["attempt"] == 2


def test_a_job_that_kills_every_worker_is_given_up(
    vodpress: Vodpress, other_clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    poison = replace_ffmpeg('kill -9 "$PPID"; exec sleep 600', first_frame=0)
    command = ("process", other_clip, "--out", out, "--ladder", ladder_file, "--json")
    settings: dict[str, Any] = {
        "ffmpeg": poison,
        "encode_jobs": 1,
        "lease_seconds": LEASE_SECONDS,
        **AT_ONCE,
    }
    for _ in range(2):
        killed = vodpress.run(*command, **settings)
        assert killed.status == -signal.SIGKILL
        assert killed.stdout == ""
    ended = vodpress.run(*command, **settings)
    assert ended.status == 5, ended
    assert ended.document["state"] == "processing"
    assert ended.document["reason"]["code"] == "worker_died"
    assert "2 attempts" in ended.document["reason"]["message"]
    assert list(out.iterdir()) == []

    asset = ended.document["asset"]
    shown = vodpress.json("asset", "show", asset)
    assert shown["blocked"]
    (letter,) = [letter for letter in shown["dead_letters"] if letter["job_kind"] == "encode"]
    assert (letter["kind"], letter["code"], letter["attempts"]) == ("infrastructure", "worker_died", 2)
    why = vodpress.json("asset", "why", asset)
    assert why["state"] == "blocked"
    assert any("worker_died" in line for line in why["why"])
    assert any(line.startswith("What to do:") for line in why["why"])
    events = vodpress.json("events", "list", "--asset", asset)
    assert {"video.dead_letter.created", "video.asset.blocked"} <= {event["type"] for event in events}


def test_a_killed_run_leaves_nothing_that_looks_finished(
    vodpress: Vodpress, make: FFmpeg, ladder_file: Path, out: Path, replace_ffmpeg: StandIn, tmp_path: Path
) -> None:
    source = tmp_path / "short.mp4"
    make("-f", "lavfi", "-i", "testsrc2=s=320x180:r=25", "-t", 2, "-c:v", "libx264", "-preset", "ultrafast", source)
    killer = replace_ffmpeg('"$REAL" "$@"; kill -9 "$PPID"; exit 0', first_frame=0)
    command = ("process", source, "--out", out, "--ladder", ladder_file, "--json")
    killed = vodpress.run(*command, ffmpeg=killer, lease_seconds=LEASE_SECONDS)
    assert killed.status == -signal.SIGKILL
    assert [path for path in out.iterdir() if not path.name.startswith(".")] == []
    assert [key for key in vodpress.objects("videos/") if key.endswith("manifest.json")] == []
    again = vodpress.run(*command, lease_seconds=LEASE_SECONDS)
    assert again.status == 0, again
    assert [path.name for path in out.iterdir()] == ["short"]
