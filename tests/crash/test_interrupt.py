"""SIGINT and SIGTERM while files are processed: nothing runs on, nothing is lost, nothing is done twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.integration.cli.conftest import FRAMES_A_SLICE, SLICES, StandIn
from tests.integration.cli.console import CRAWL, Vodpress, assert_gone, wait_for_recorded_slice, wait_until


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_stops_everything_and_the_next_goes_on(
    number: signal.Signals, vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    crawl = replace_ffmpeg(CRAWL, first_frame=FRAMES_A_SLICE)
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    with vodpress.start(*command, ffmpeg=crawl, encode_jobs=1) as running:
        wait_for_recorded_slice(vodpress, running, "180p")
        wait_until(lambda: running.tools("-readrate"), "an encode crawls")
        tools = running.tools()
        running.interrupt(number)
        ended = running.end()
    assert ended.status == 130
    assert ended.document["exit_code"] == 130
    assert ended.document["reason"]["code"] == "interrupted"
    assert ended.document["manifest"] is None
    assert "Traceback" not in ended.stderr
    assert_gone(tools)
    vodpress.await_stopped_server()
    assert list(out.iterdir()) == []
    assert list((vodpress.home / "scratch").iterdir()) == []

    jobs = vodpress.json("queue", "list")
    assert {job["state"] for job in jobs} == {"succeeded", "todo"}
    assert max(job["attempt"] for job in jobs) == 1, "what was handed back keeps its attempts"
    before = {key: part for key, part in vodpress.slices().items() if part["state"] == "completed"}
    assert ("180p", 0) in before

    again = vodpress.run(*command)
    assert again.status == 0, again
    assert again.document["state"] == "ready"
    assert again.document["asset"] == ended.document["asset"]
    assert not again.document["reused"]
    after = vodpress.slices()
    assert len(after) == 2 * SLICES + 1
    assert {part["state"] for part in after.values()} == {"completed"}
    assert {key: after[key] for key in before} == before, "recorded slices were encoded again"
