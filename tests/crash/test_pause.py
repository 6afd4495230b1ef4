"""A run that is stopped like a frozen machine, comes back after others did its work, and can change nothing."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.integration.cli.conftest import FRAMES_A_SLICE, StandIn
from tests.integration.cli.console import CRAWL, Vodpress, assert_gone, wait_for_recorded_slice, wait_until

LEASE_SECONDS = 3


def test_a_run_that_was_frozen_finds_its_work_done(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    crawl = replace_ffmpeg(CRAWL, first_frame=FRAMES_A_SLICE)
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    with vodpress.start(*command, ffmpeg=crawl, encode_jobs=1, lease_seconds=LEASE_SECONDS) as frozen:
        wait_for_recorded_slice(vodpress, frozen, "180p")
        wait_until(lambda: frozen.tools("-readrate"), "an encode crawls")
        tools = frozen.tools()
        frozen.process.send_signal(signal.SIGSTOP)
        other = vodpress.run(*command, lease_seconds=LEASE_SECONDS)
        assert other.status == 0, other
        assert "job rescued from a dead worker" in other.stderr
        done, objects = vodpress.slices(), vodpress.objects()
        jobs = vodpress.json("queue", "list")
        frozen.process.send_signal(signal.SIGCONT)
        assert_gone(tools)
        ended = frozen.end()
    assert ended.status == 0, ended
    assert ended.document["state"] == "ready"
    assert ended.document["asset"] == other.document["asset"]
    assert vodpress.slices() == done
    assert vodpress.objects() == objects
    assert vodpress.json("queue", "list") == jobs
    assert sorted(path.name for path in out.iterdir()) == ["clip", "clip-2"]
