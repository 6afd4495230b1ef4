"""`vodpress worker`: any number of processes over one database, and an orderly end."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.conftest import SLICES, StandIn
from tests.integration.cli.console import GATED, Vodpress, assert_gone, wait_until
from tests.integration.conftest import FFmpeg


def submit(vodpress: Vodpress, clip: Path, ladder_file: Path) -> str:
    """Submit a file; the asset."""
    return str(vodpress.json("submit", clip, "--ladder", ladder_file)["asset"])


def jobs(vodpress: Vodpress, **wanted: object) -> list[dict[str, Any]]:
    return [job for job in vodpress.json("queue", "list") if all(job[key] == value for key, value in wanted.items())]


def is_ready(vodpress: Vodpress, asset: str) -> bool:
    return bool(vodpress.json("asset", "show", asset)["state"] == "ready")


@pytest.mark.parametrize("grace_seconds", [60, 0])
def test_sigterm_finishes_or_hands_back_what_runs(
    vodpress: Vodpress,
    clip: Path,
    ladder_file: Path,
    replace_ffmpeg: StandIn,
    tmp_path: Path,
    grace_seconds: int,
) -> None:
    asset = submit(vodpress, clip, ladder_file)
    gate = tmp_path / "gate"
    gated = replace_ffmpeg(GATED.format(gate=gate))
    with vodpress.start("worker", ffmpeg=gated, encode_jobs=1, grace_seconds=grace_seconds) as running:
        wait_until(lambda: list(tmp_path.glob("gate.*")), "an encode runs")
        tools = running.tools(str(gated))
        running.process.send_signal(signal.SIGTERM)
        if grace_seconds:
            gate.touch()
        ended = running.end()
    assert ended.status == 0, ended
    assert_gone(tools)
    assert jobs(vodpress, state="doing") == []
    video = {key: part for key, part in vodpress.slices().items() if key[0] != "audio"}
    recorded = [part for part in video.values() if part["state"] == "completed"]
    encodes = [job for job in jobs(vodpress, kind="encode") if job["args"]["kind"] == "video"]
    if grace_seconds:
        assert recorded, "it had time to finish"
    else:
        assert recorded == []
        assert {(job["state"], job["attempt"]) for job in encodes} == {("todo", 0)}, "no attempt was lost"
        assert {part["state"] for part in video.values()} <= {"pending", "encoding"}

    with vodpress.start("worker") as running:
        wait_until(lambda: is_ready(vodpress, asset), "another worker goes on")
        running.process.send_signal(signal.SIGTERM)
        assert running.end().status == 0


def test_several_workers_share_the_work_and_do_nothing_twice(vodpress: Vodpress, clip: Path, ladder_file: Path) -> None:
    asset = submit(vodpress, clip, ladder_file)
    with (
        vodpress.start("worker", "--queue", "encode=1", "--queue", "ingest=1") as one,
        vodpress.start("worker", "--queue", "encode=1", node="other") as two,
        vodpress.start("worker", "--queue", "light=2") as three,
    ):
        wait_until(lambda: is_ready(vodpress, asset), "the asset is ready")
        wait_until(lambda: not any(vodpress.json("asset", "show", asset)["jobs"].values()), "nothing is left")
        for worker in (one, two, three):
            worker.process.send_signal(signal.SIGTERM)
        assert [worker.end().status for worker in (one, two, three)] == [0, 0, 0]
    assert {part["attempt"] for part in vodpress.slices().values()} == {1}
    video = [job for job in jobs(vodpress, kind="encode") if job["args"]["kind"] == "video"]
    assert len(video) == SLICES
    assert {job["state"] for job in jobs(vodpress)} == {"succeeded"}
    assert {job["attempt"] for job in jobs(vodpress)} == {1}


def test_a_queue_that_nobody_serves_waits(vodpress: Vodpress, clip: Path, ladder_file: Path) -> None:
    asset = submit(vodpress, clip, ladder_file)
    with vodpress.start("worker", "--queue", "ingest=1", "--queue", "light=1") as running:
        wait_until(lambda: jobs(vodpress, kind="thumbnails", state="succeeded"), "what is served is done")
        assert {job["state"] for job in jobs(vodpress, kind="encode")} == {"todo"}
        assert not is_ready(vodpress, asset)
        running.process.send_signal(signal.SIGTERM)
        assert running.end().status == 0


def test_files_that_cannot_be_submitted_stop_no_other(
    vodpress: Vodpress, clip: Path, ladder_file: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.mp4"
    empty.touch()
    ended = vodpress.run("submit", tmp_path / "none.mp4", empty, clip, "--ladder", ladder_file, "--json")
    assert ended.status == 2, ended
    assert [(row["exit_code"], (row["reason"] or {}).get("code")) for row in ended.documents] == [
        (2, "file_not_found"),
        (6, "source_empty"),
        (0, None),
    ]
    again = vodpress.json("submit", clip, "--ladder", ladder_file)
    assert again["asset"] == ended.documents[2]["asset"]
    assert len(jobs(vodpress)) == 1, "the same work is asked for once"


def test_a_bad_node_takes_itself_out_before_it_has_used_up_everyones_attempts(
    vodpress: Vodpress, make: FFmpeg, ladder_file: Path, tmp_path: Path, replace_ffmpeg: StandIn
) -> None:
    """FFmpeg crashes on this node, whatever the file; on another one all is well."""
    broken = replace_ffmpeg('echo "libfoo.so: cannot open shared object file" >&2; exit 127')
    files = [tmp_path / f"{number}.mp4" for number in range(8)]
    for number, file in enumerate(files):
        make("-f", "lavfi", "-i", f"testsrc2=s=96x64:r=25:d=0.{number + 2}", "-c:v", "libx264", file)
    submit_all: tuple[str | Path, ...] = ("submit", *files, "--ladder", ladder_file, "--json")
    assets = [document["asset"] for document in vodpress.run(*submit_all).documents]
    with vodpress.start("worker", ffmpeg=broken, node="bad", encode_jobs=1) as running:
        wait_until(lambda: "bad" in node_events(vodpress), "the node is out of service")
        (doctor,) = [check for check in vodpress.run("doctor", "--json").document if check["check"] == "nodes"]
        assert not doctor["ok"]
        assert "bad" in doctor["found"]
        assert "tool_crashed" in doctor["found"]
        failures = vodpress.query("SELECT count(*) AS count FROM job_failures")[0]["count"]
        running.process.send_signal(signal.SIGTERM)
        assert running.end().status == 0
    assert failures <= 6, "five in a row, and one that may have been on its way"
    assert vodpress.query("SELECT count(*) AS count FROM job_failures")[0]["count"] <= 6, "none after that"
    assert vodpress.json("dead-letter", "list")["letters"] == [], "nobody's attempts are used up"
    assert vodpress.run(*submit_all).status == 0  # they need not wait for their time any more
    with vodpress.start("worker", node="good") as running:
        wait_until(lambda: all(is_ready(vodpress, asset) for asset in assets), "the other node does the work")
        running.process.send_signal(signal.SIGTERM)
        assert running.end().status == 0


def node_events(vodpress: Vodpress) -> list[str]:
    found = vodpress.json("events", "list", "--limit", "1000")
    return [event["data"]["node"] for event in found if event["type"] == "vodpress.node.out_of_service"]
