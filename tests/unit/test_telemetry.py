"""Logs: one stream, harmless to the terminal, and no reason to fail."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vodpress.telemetry import configure_logging

HOSTILE = 'a\x1b[2J\x07"\n2026-01-01T00:00:00Z info    forged\u202e\x9b31m\u2028\ud800'
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_text_is_one_line_of_time_level_event_and_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    with structlog.contextvars.bound_contextvars(asset="a1"):
        structlog.get_logger().info("job waits", seconds=1.5, reason="no disk")
    line = capsys.readouterr().err
    assert re.fullmatch(
        r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z info    job waits seconds=1\.5 reason="no disk" asset=a1\n', line
    )


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug", "json")
    structlog.get_logger().debug("found", detail="one\ntwo", speed=float("nan"), parts=[1, {"key": b"\xff"}])
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert list(entry)[:3] == ["timestamp", "level", "event"]
    assert entry["timestamp"].endswith("Z")
    assert (entry["level"], entry["event"], entry["detail"]) == ("debug", "found", "one\ntwo")
    assert entry["speed"] == "nan"
    assert entry["parts"] == [1, {"key": "\ufffd"}]


def test_levels_below_the_chosen_one_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("warning", "text")
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["warning"]


def test_the_standard_librarys_logs_join_at_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # pytest's own would raise at what does not fit
    configure_logging("debug", "json")
    library = logging.getLogger("procrastinate.worker")
    library.info("chatter")
    library.warning("job %s is late", 3)
    library.error("does not fit %s %s", 3)
    entries = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(entry["level"], entry["logger"]) for entry in entries] == [
        ("warning", "procrastinate.worker"),
        ("error", "procrastinate.worker"),
    ]
    assert entries[0]["event"] == "job 3 is late"


def test_configuring_again_does_not_double_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        configure_logging("info", "text")
    logging.getLogger("library").warning("once")
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("format_", ["text", "json"])
def test_hostile_values_stay_on_their_line(capsys: pytest.CaptureFixture[str], format_: str) -> None:
    configure_logging("info", format_)  # type: ignore[arg-type]
    structlog.get_logger().info(HOSTILE, title=HOSTILE, nested={"tags": [HOSTILE]}, **{HOSTILE: 1})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert not UNSAFE.search(lines[0])


def test_a_traceback_cannot_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info", "text")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        structlog.get_logger().exception("failed")
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith("error   failed")
    assert others
    assert all(line.startswith("  | ") for line in others)
    assert not UNSAFE.search("".join(others))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(value=st.recursive(st.text() | st.binary() | st.floats() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_whatever_is_logged_is_one_clean_line(capsys: pytest.CaptureFixture[str], value: object) -> None:
    configure_logging("info", "text")
    structlog.get_logger().info("value", value=value)
    (line,) = capsys.readouterr().err.split("\n")[:-1]
    assert not UNSAFE.search(line)


PROGRAM = """
import structlog, sys
from vodpress.telemetry import configure_logging
configure_logging("info", "text")
sys.stdin.read()
for number in range(200):
    structlog.get_logger().warning("x" * 1000, number=number)
print("done")
"""


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_a_closed_or_full_stderr_changes_nothing(redirection: str) -> None:
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", PROGRAM]
    ended = subprocess.run(shell, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"done\n")


def test_a_broken_stderr_changes_nothing() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    child.stderr.close()  # before it is told, by the end of its standard input, to begin
    child.stderr = None
    out, _ = child.communicate(b"", timeout=60)
    assert (child.returncode, out) == (0, b"done\n")
