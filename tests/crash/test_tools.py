"""An FFmpeg that hangs, lies, or spoils one rendition: retried, given up, and only what is missing repeated."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import psutil
from tests.integration.cli.conftest import FRAMES_A_SLICE, SLICES, StandIn
from tests.integration.cli.console import AT_ONCE, HALVE, IMAGES, Ended, Vodpress, assert_gone, command_line, wait_until


def letters(vodpress: Vodpress, ended: Ended) -> list[Any]:
    found: list[Any] = vodpress.json("asset", "show", ended.document["asset"])["dead_letters"]
    return found


def attempts_that_failed(vodpress: Vodpress) -> list[tuple[int, str]]:
    rows = vodpress.query("SELECT attempt, code FROM job_failures ORDER BY id")
    return [(row["attempt"], row["code"]) for row in rows]


def test_a_hanging_tool_is_ended_and_tried_again(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    forever = f"600.{os.getpid()}"  # a child of the tool, to be known by this word
    hang = replace_ffmpeg(f"sleep {forever}; exit 1", first_frame=0)
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    ended = vodpress.run(*command, ffmpeg=hang, stall_seconds=1, **AT_ONCE)
    assert ended.status == 5, ended
    assert ended.document["state"] == "processing"
    assert ended.document["reason"]["code"] == "tool_hung"
    assert ended.document["manifest"] is None
    assert attempts_that_failed(vodpress) == [(1, "tool_hung"), (2, "tool_hung")]
    (letter,) = letters(vodpress, ended)
    assert (letter["job_kind"], letter["attempts"]) == ("encode", 2)
    assert list(out.iterdir()) == []
    left = [process for process in psutil.process_iter() if {str(hang), forever} & set(command_line(process))]
    assert left == []


def test_an_exit_status_of_zero_is_not_believed(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    ended = vodpress.run(*command, ffmpeg=replace_ffmpeg(HALVE.format(outputs="file:*.mp4")), **AT_ONCE)
    assert ended.status == 5, ended
    assert ended.document["reason"]["code"] == "output_unverified"
    assert {code for _, code in attempts_that_failed(vodpress)} == {"output_unverified"}
    assert list(out.iterdir()) == []
    slices = vodpress.slices()
    assert {key[0] for key, part in slices.items() if part["state"] == "completed"} <= {"audio"}
    assert [key for key in vodpress.objects("videos/") if "/slices/" in key] == []


def test_a_spoilt_rung_repeats_only_its_own_missing_slice(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    spoil = replace_ffmpeg(HALVE.format(outputs="file:*/90p.mp4"), first_frame=FRAMES_A_SLICE)
    spoilt = vodpress.run(*command, ffmpeg=spoil, encode_jobs=1, **AT_ONCE)
    assert spoilt.status == 5, spoilt
    assert spoilt.document["reason"]["code"] == "output_unverified"
    states = {rendition["name"]: rendition["state"] for rendition in spoilt.document["renditions"]}
    assert states == {"180p": "completed", "90p": "failed", "audio": "completed"}
    assert len(letters(vodpress, spoilt)) == 1
    before = vodpress.slices()
    assert {part["attempt"] for (name, _), part in before.items() if name != "90p"} == {1}
    assert {key for key, part in before.items() if part["state"] == "completed"} >= {
        ("90p", 0),
        *(("180p", index) for index in range(SLICES)),
    }
    encodes = len(vodpress.json("queue", "list", "--queue", "encode"))

    mended = vodpress.run(*command, encode_jobs=1)
    assert mended.status == 0, mended
    assert mended.document["asset"] == spoilt.document["asset"]
    assert not mended.document["reused"]
    after = vodpress.slices()
    kept = {key: part for key, part in before.items() if part["state"] == "completed"}
    assert {key: after[key] for key in kept} == kept
    missing = before.keys() - kept.keys()
    assert {name for name, _ in missing} == {"90p"}
    jobs = vodpress.json("queue", "list", "--queue", "encode")[:-encodes]
    done_again = [job["args"]["index"] for job in jobs if job["kind"] == "encode"]
    assert sorted(done_again) == sorted(index for _, index in missing)
    assert letters(vodpress, mended) == []


def test_another_ladder_leaves_what_was_given_up_open(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, tmp_path: Path, replace_ffmpeg: StandIn
) -> None:
    spoil = replace_ffmpeg(HALVE.format(outputs="file:*/90p.mp4"), first_frame=FRAMES_A_SLICE)
    spoilt = vodpress.run("process", clip, "--out", out, "--ladder", ladder_file, "--json", ffmpeg=spoil, **AT_ONCE)
    assert spoilt.status == 5, spoilt
    (letter,) = letters(vodpress, spoilt)

    other = tmp_path / "other.toml"
    other.write_text(ladder_file.read_text().replace("maxrate_kbps = ", "maxrate_kbps = 1"))
    fine = vodpress.run("process", clip, "--out", out, "--ladder", other, "--json")
    assert fine.status == 0, fine
    assert fine.document["asset"] == spoilt.document["asset"]
    assert fine.document["state"] == "ready"
    assert letters(vodpress, fine) == [letter], "nobody asked for the first plan again"

    mended = vodpress.run("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    assert mended.status == 0, mended
    assert letters(vodpress, mended) == []


def test_images_that_cannot_be_made_hold_up_nothing_and_wait_for_a_decision(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    without = vodpress.run(*command, ffmpeg=replace_ffmpeg("exit 1", matching=IMAGES), **AT_ONCE)
    assert without.status == 8, without
    assert without.document["state"] == "ready"
    assert without.document["reason"]["code"] == "tool_crashed"
    manifest = json.loads(Path(without.document["manifest"]).read_bytes())
    assert manifest["images"] == {}
    assert not (out / "clip" / "poster.jpg").exists()
    (letter,) = letters(vodpress, without)
    assert letter["job_kind"] == "thumbnails"

    mended = vodpress.run(*command)
    assert mended.status == 0, mended
    assert mended.document["reused"], "no slice was encoded again"
    later = json.loads(Path(mended.document["manifest"]).read_bytes())
    assert later["version"] == manifest["version"] + 1
    assert later["images"]["poster"] == "poster.jpg"
    assert (out / "clip-2" / "poster.jpg").exists()
    assert later["renditions"] == manifest["renditions"]
    assert letters(vodpress, mended) == []


def test_a_job_that_does_not_end_is_ended(
    vodpress: Vodpress, other_clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    """Whatever it waits for: here for a program that says often enough that it goes on."""
    endless = replace_ffmpeg('n=1; while :; do n=$((n+1)); echo "frame=$n"; sleep 0.1; done')
    with vodpress.start(
        "process", other_clip, "--out", out, "--ladder", ladder_file, "--json",
        ffmpeg=endless, job_deadline_seconds=2, stall_seconds=60, **AT_ONCE,
    ) as running:  # fmt: skip
        wait_until(lambda: running.tools(str(endless)), "a program runs that does not end")
        tools = running.tools(str(endless))
        ended = running.end()
    assert ended.status == 5, ended
    assert ended.document["reason"]["code"] == "job_overdue"
    assert_gone(tools)
