"""The embedded server loses its sessions under a run, as when one of its processes crashes: the run goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psycopg
from tests.integration.cli.conftest import StandIn
from tests.integration.cli.console import GATED, Vodpress, wait_until


def test_a_run_survives_a_crash_inside_the_server(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gated = replace_ffmpeg(GATED.format(gate=gate))
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    with vodpress.start(*command, ffmpeg=gated, encode_jobs=2) as running:
        wait_until(lambda: list(tmp_path.glob("gate.*")), "an encode is under way")
        with vodpress.database() as connection:
            lose_all_sessions(connection)
        gate.touch()
        ended = running.end()
    assert ended.status == 0, ended.stdout + ended.stderr
    assert ended.document["state"] == "ready"
    log = (vodpress.home / "postgres" / "log").read_text()
    assert "terminating any other active server processes" in log
    assert {job["state"] for job in vodpress.json("queue", "list")} == {"succeeded"}


def lose_all_sessions(connection: psycopg.Connection[Any]) -> None:
    """Kill the process behind a connection; the server then ends every other session and starts afresh."""
    os.kill(connection.info.backend_pid, signal.SIGKILL)
