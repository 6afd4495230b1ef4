"""The console script as its users run it: a process of its own over a home, with programs that may misbehave."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil
import psycopg
from psycopg.rows import dict_row

from vodpress.adapters.db import embedded_keeper as keeper
from vodpress.adapters.db.embedded import EmbeddedPostgres

SCRIPT = Path(sys.executable).with_name("vodpress")
DEADLINE_SECONDS = 90.0
POLL_SECONDS = 0.02

AT_ONCE: Mapping[str, Any] = {"media_retry_delays_seconds": "0", "retry_jitter": 0}
"""Settings for one retry, without a wait."""

SLICE_ENCODES, AUDIO_ENCODES, IMAGES = "-enc_time_base:v filter", ",aresample=", "poster.jpg"
"""What the arguments of these calls of FFmpeg have and those of others have not."""

CRAWL = 'exec "$REAL" -readrate 0.02 "$@"'
"""The real program at a fiftieth of real time."""

GATED = 'touch {gate}.$$; while [ ! -e {gate} ]; do sleep 0.02; done; exec "$REAL" "$@"'
"""The real program once the file `gate` is there; each call that waits leaves a file beside it."""

HALVE = """
"$REAL" "$@" || exit
for argument; do case "$argument" in {outputs})
  path=${{argument#file:}}
  case "$path" in */scratch/*) truncate -s $(($(stat -c %s "$path") / 2)) "$path";; esac;;
esac; done
exit 0
"""
"""The real program, and then its outputs (a pattern of the shell) cut in half, as if all had gone well."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    status: int
    stdout: str
    stderr: str

    @property
    def documents(self) -> list[Any]:
        """Standard output as JSON, one document a line, and nothing else."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def document(self) -> Any:
        """The only document."""
        (only,) = self.documents
        return only


class Vodpress:
    """The command over one home.

    Args:
        settings: names and values of settings for every call, e.g. `lease_seconds=3`.
    """

    def __init__(self, home: Path, **settings: object) -> None:
        self.home = home
        self._settings = settings

    def run(self, *arguments: str | Path, cwd: Path | None = None, **settings: Any) -> Ended:
        """Run a command to its end."""
        ended = subprocess.run(
            self._command(arguments),
            env=self.environment(settings),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode(errors="replace"))

    def json(self, *arguments: str | Path) -> Any:
        """The document that a command prints, which must succeed."""
        ended = self.run(*arguments, "--json")
        assert ended.status == 0, ended
        return ended.document

    @contextmanager
    def start(self, *arguments: str | Path, stderr: int = subprocess.PIPE, **settings: Any) -> Iterator[Running]:
        """Start a command in a process group of its own, as a shell would; killed with it should the test fail."""
        process = subprocess.Popen(
            self._command(arguments),
            env=self.environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        try:
            yield Running(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=DEADLINE_SECONDS)

    @contextmanager
    def database(self) -> Iterator[psycopg.Connection[dict[str, Any]]]:
        """A connection to the home's database, as one more user of it."""
        with (
            EmbeddedPostgres(self.home) as conninfo,
            psycopg.connect(conninfo, autocommit=True, row_factory=dict_row) as connection,
        ):
            yield connection

    def query(self, statement: str) -> list[dict[str, Any]]:
        """Rows of the home's database."""
        with self.database() as connection:
            return connection.execute(statement.encode()).fetchall()

    def slices(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Every slice by rendition and number."""
        rows = self.query("SELECT name, index, slices.* FROM slices JOIN renditions ON renditions.id = rendition_id")
        return {(row["name"], row["index"]): row for row in rows}

    def objects(self, prefix: str = "") -> dict[str, str]:
        """Key → SHA-256 of every object of the home's own storage."""
        root = self.home / "storage"
        return {
            key: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(root.rglob("*"))
            if path.is_file() and (key := path.relative_to(root).as_posix()).startswith(prefix)
        }

    def await_stopped_server(self) -> None:
        """Wait until the embedded server has stopped because nobody uses it."""
        folder = self.home / "postgres"
        wait_until(lambda: not keeper.is_held(folder, keeper.KEEPER), "the keeper has ended")
        assert not keeper.is_held(folder, keeper.SERVER)

    def _command(self, arguments: tuple[str | Path, ...]) -> list[str | Path]:
        return [SCRIPT, *arguments]

    def environment(self, settings: Mapping[str, object] = MappingProxyType({})) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("VODPRESS_")}
        chosen = {"home": self.home, **self._settings, **settings}
        return {**inherited, **{f"VODPRESS_{name.upper()}": str(value) for name, value in chosen.items()}}


@dataclass(frozen=True)
class Running:
    """A command on its way."""

    process: subprocess.Popen[str]

    def end(self) -> Ended:
        """Wait for its end."""
        stdout, stderr = self.process.communicate(timeout=DEADLINE_SECONDS)
        return Ended(self.process.returncode, stdout, stderr or "")

    def interrupt(self, number: signal.Signals) -> None:
        """Send a signal to its process group, as Ctrl-C on a terminal does."""
        os.killpg(self.process.pid, number)

    def tools(self, word: str = "") -> list[psutil.Process]:
        """Its live descendants that have `word` in an argument."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if any(word in argument for argument in command_line(child))]


def command_line(process: psutil.Process) -> list[str]:
    """The arguments of a process; none when it has ended."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Poll until `condition` holds."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"in vain waited until {what}"
        time.sleep(POLL_SECONDS)


def wait_for_recorded_slice(vodpress: Vodpress, running: Running, name: str) -> None:
    """Wait until a slice of the rendition `name` is recorded, while the command runs."""
    with vodpress.database() as connection:

        def is_recorded() -> bool:
            assert running.process.poll() is None, running.end()
            there = connection.execute("SELECT to_regclass('slices') AS there").fetchone()
            if there is None or there["there"] is None:
                return False
            found = connection.execute(
                "SELECT FROM slices JOIN renditions ON renditions.id = rendition_id "
                "WHERE slices.state = 'completed' AND name = %s",
                [name],
            )
            return found.rowcount > 0

        wait_until(is_recorded, f"a slice of {name} is recorded")


def assert_gone(processes: list[psutil.Process]) -> None:
    """Wait until none of the processes lives, nor any of their groups."""
    assert processes
    _, alive = psutil.wait_procs(processes, timeout=DEADLINE_SECONDS)
    assert alive == []
    groups = {process.pid for process in processes}  # each tool leads a group of its own

    def members() -> list[int]:
        return [process.pid for process in psutil.process_iter() if _group(process.pid) in groups]

    wait_until(lambda: not members(), f"the process groups {groups} are empty")


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def stand_in(folder: Path, ffmpeg: Path, *, matching: str, does: str) -> Path:
    """A program in place of FFmpeg that is the real one but for calls with `matching` in their arguments.

    Args:
        does: shell that runs before the real program, which is in `$REAL`.
    """
    script = folder / f"ffmpeg-{len(list(folder.glob('ffmpeg-*')))}"
    script.write_text(
        f"#!/bin/sh\nREAL={shlex.quote(str(ffmpeg))}\n"
        f'case "$*" in *{shlex.quote(matching)}*)\n{does}\n;; esac\nexec "$REAL" "$@"\n'
    )
    script.chmod(0o755)
    return script
