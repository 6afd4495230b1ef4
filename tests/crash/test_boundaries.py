"""Real workers over one asset, with one thing going wrong at each boundary of each stage; then everything must hold.

`VODPRESS_TEST_SOAK=1` (`make soak`) gives each pair of boundary and fault an asset and a worker of its own as well.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from tests.crash import invariants
from tests.crash.faulty_worker import FAULTS
from tests.integration.conftest import FFmpeg

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 90.0
PARTS = 4
SOAK = os.environ.get("VODPRESS_TEST_SOAK") == "1"

LADDER = """
name = "tiny"
preset = "ultrafast"
gop_seconds = 1
segment_seconds = 1
slice_seconds = 2
rungs = [
  { name = "90p", short_side = 90, crf = 40, maxrate_kbps = 200 },
  { name = "64p", short_side = 64, crf = 40, maxrate_kbps = 100 },
]
"""

STORES = {
    "encode": ("head", "put_file"),
    "stitch": ("head", "put_file", "delete"),
    "thumbnails": ("head", "put_file"),
    "package": ("head", "put_file", "put_bytes", "get_bytes", "get_file"),
}
TOOLS = {
    "ingest": ("prober.probe", "prober.decode_check"),
    "encode": ("transcoder.encode_slice", "transcoder.encode_audio"),
    "stitch": ("transcoder.stitch",),
    "thumbnails": ("transcoder.thumbnails",),
    "package": ("transcoder.check_decodes", "packager.package"),
}
COMMITS = {"ingest": 4, "encode": 4, "stitch": 2, "thumbnails": 2, "package": 2}
"""Transactions of a job at least; that of the result is the last but, of `encode`, one for each rendition."""

BOUNDARIES = tuple(
    f"{kind}.{name}.{side}"
    for kind, transactions in COMMITS.items()
    for name in (
        "job",
        *(f"commit.{number}" for number in range(1, transactions + 1)),
        *TOOLS[kind],
        *(f"store.{method}" for method in STORES.get(kind, ())),
    )
    for side in ("before", "after")
)
MAY_BE_CROSSED = {"package.store.get_file.before", "package.store.get_file.after"}
"""Only where the images are there when the package is made."""


class Harness:
    """One asset in a database and a storage of its own, and workers over it."""

    def __init__(self, home: Path, database: str, folder: Path) -> None:
        self.home, self.database, self.folder = home, database, folder
        self.trace = folder / "trace"
        self.trace.touch()

    def settings(self, **more: object) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("VODPRESS_")}
        chosen = {
            "home": self.home,
            "database_url": self.database,
            "media_retry_delays_seconds": ",".join(["0"] * 100),
            "ingest_attempts": 100,
            "retry_jitter": 0,
            "encode_jobs": 1,
            "light_jobs": 1,
            "ingest_jobs": 1,
            "bulk_jobs": 1,
            "lease_seconds": 6,
            "grace_seconds": 1,
            "stall_seconds": 2,
            "disk_reserve_bytes": 0,
            "test_trace": self.trace,
            **more,
        }
        return {**inherited, **{f"VODPRESS_{name.upper()}": str(value) for name, value in chosen.items()}}

    def submit(self, clip: Path) -> None:
        ladder = self.folder / "tiny.toml"
        ladder.write_text(LADDER)
        script = Path(sys.executable).with_name("vodpress")
        subprocess.run(
            [script, "submit", clip, "--ladder", ladder],
            env=self.settings(),
            check=True,
            capture_output=True,
            timeout=DEADLINE_SECONDS,
        )

    @contextmanager
    def worker(self, fault: str = "", at: Sequence[str] = (), **more: object) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.crash.faulty_worker"],
                cwd=ROOT,
                env=self.settings(test_fault=fault, test_at=" ".join(at), **more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def crossed(self) -> list[str]:
        return self.trace.read_text().splitlines()

    def faulty_at(self) -> list[str]:
        """The boundaries at which something went wrong."""
        return [line.split()[2] for line in self.crossed() if line.startswith("FAULT")]

    def is_at_rest(self) -> bool:
        return not invariants.rows(
            self.database, "SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1"
        )

    def silence(self) -> None:
        """Whoever lives says so again in a moment; those who do not are dead at once instead of after a lease."""
        with psycopg.connect(self.database) as connection:
            connection.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")

    def finish(self) -> None:
        """A worker without a fault brings everything to its end."""
        self.silence()
        known = self.crossed().count("READY")
        with self.worker() as process:
            self.until(lambda: self.crossed().count("READY") > known, "a worker has begun", process)
            self.until(self.is_at_rest, "nothing is left to do", process)
            process.send_signal(signal.SIGTERM)
            assert self.end_of(process) == 0

    def end_of(self, process: subprocess.Popen[bytes]) -> int:
        """The exit status of a worker that was told to stop; one that does not says what it waits for."""
        try:
            return process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            raise AssertionError((self.folder / "log").read_text()[-9000:]) from None

    def until(self, condition: object, what: str, process: subprocess.Popen[bytes] | None = None) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():  # type: ignore[operator]
            if process is not None:
                assert process.poll() is None, (self.folder / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, f"in vain waited until {what}: {self.crossed()[-5:]}"
            time.sleep(0.02)

    def check(self, *, processes: bool = True) -> None:
        invariants.check(self.database, self.home)
        scratch = self.home / "scratch"
        kept = [path.name for path in scratch.iterdir()] if scratch.exists() else []
        assert all(name.startswith("job-") for name in kept), kept
        ours = str(self.home)
        for process in psutil.process_iter() if processes else ():
            try:
                assert not any(ours in part for part in process.cmdline()), f"{process} is left"
            except psutil.Error:
                continue


@pytest.fixture(scope="session")
def tiny(make: FFmpeg, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 s in two slices, with sound."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.mp4"
    make(
        "-f", "lavfi", "-i", "testsrc2=s=160x90:r=25", "-f", "lavfi", "-i", "sine=f=440", "-t", 3,
        "-c:v", "libx264", "-preset", "ultrafast", "-g", 25, "-c:a", "aac", path,
    )  # fmt: skip
    return path


@pytest.fixture
def harness(home: Path, database: str, tmp_path: Path, tiny: Path) -> Iterator[Harness]:
    harness = Harness(home, database, tmp_path)
    harness.submit(tiny)
    with invariants.watched(home / "storage"):
        yield harness


def at(*endings: str) -> list[str]:
    return [name for name in BOUNDARIES if name.endswith(endings)]


def test_every_boundary_is_known(harness: Harness) -> None:
    harness.finish()
    harness.check()
    crossed = set(harness.crossed()) - {"READY"}
    assert set(BOUNDARIES) - crossed <= MAY_BE_CROSSED
    ports = {name for name in crossed if ".commit." not in name} - set(BOUNDARIES)
    unimportant = (
        "store.copy",
        "store.list",
        "store.get_file",
        "store.head",
        "store.delete",
        "transcoder.verify_slice",
    )
    assert {name for name in ports if not any(word in name for word in unimportant)} == set(), "put them on the list"


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("fault", ["kill", "terminate"])
def test_workers_that_end_at_every_boundary(harness: Harness, fault: str, part: int) -> None:
    """One worker after the other over the same asset, each ended at the first boundary at which none was before."""
    left = set(BOUNDARIES[part::PARTS])
    while not harness.is_at_rest():
        with harness.worker(fault, sorted(left)) as process:
            harness.until(lambda process=process: process.poll() is not None or harness.is_at_rest(), "it is over")
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_SECONDS)
        left -= set(harness.faulty_at())
        harness.silence()
    # Where none came back from the last transaction of a job, there is no end of it.
    assert {name for name in left if not name.endswith("job.after")} <= MAY_BE_CROSSED, "these were never reached"
    harness.finish()
    harness.check()


def test_workers_that_come_back_from_the_dead(harness: Harness) -> None:
    """Each is stopped at a boundary, for longer than its lease; all go on when the asset is ready."""
    left = {
        "encode.commit.2.before",  # in the middle of a transaction
        "encode.store.put_file.before",
        "stitch.store.put_file.before",
        "thumbnails.store.put_file.after",
        "package.store.put_bytes.before",  # the manifest is about to be written
        "package.commit.2.after",
    }
    with ExitStack() as workers:
        zombies = []
        while not harness.is_at_rest():
            process = workers.enter_context(harness.worker("stop", sorted(left), lease_seconds=3))
            stopped = psutil.Process(process.pid)

            def stands_still(stopped: psutil.Process = stopped) -> bool:
                return stopped.status() == psutil.STATUS_STOPPED

            harness.until(lambda stopped=stopped: stands_still(stopped) or harness.is_at_rest(), "it stands still")
            if stands_still():
                zombies.append(process)
            left -= set(harness.faulty_at())
            harness.silence()
        assert len(zombies) == 6
        harness.finish()
        harness.check(processes=False)
        before = snapshot(harness)
        for zombie in zombies:
            zombie.send_signal(signal.SIGCONT)
            zombie.send_signal(signal.SIGTERM)
        assert [harness.end_of(zombie) for zombie in zombies] == [0] * len(zombies)
        assert snapshot(harness) == before, "one that came back changed something"
    harness.check()


def snapshot(harness: Harness) -> tuple[object, ...]:
    tables = ("assets", "plans", "renditions", "slices", "manifests", "dead_letters", "outbox")
    rows = [invariants.rows(harness.database, f"SELECT * FROM {table} AS t ORDER BY t::text") for table in tables]
    storage = harness.home / "storage"
    files = {path: path.read_bytes() for path in storage.rglob("*") if path.is_file() and "/slices/" not in str(path)}
    return rows, {path: data for path, data in files.items() if ".partial" not in path.name}


@pytest.mark.parametrize(
    ("fault", "boundaries"),
    [
        ("kill_tool", at("encode_slice.before", "encode_audio.before", "thumbnails.before")),
        ("hang_tool", at("encode_slice.before", "encode_audio.before")),
        ("cut_database", [name for name in BOUNDARIES if ".commit." in name or name.endswith("job.before")]),
        ("storage_fails", [name for name in BOUNDARIES if ".store." in name]),
        ("storage_hangs", at("put_file.before", "put_bytes.before")),
        ("storage_lies", at("put_file.before")),
        ("disk_full", at("put_file.before", "stitch.before", "package.before", "encode_slice.before")),
    ],
)
def test_what_goes_wrong_is_tried_again(harness: Harness, fault: str, boundaries: list[str]) -> None:
    """One worker, and something going wrong at every boundary where it can."""
    with harness.worker(fault, boundaries, job_deadline_seconds=4 if fault == "storage_hangs" else 60) as process:
        harness.until(harness.is_at_rest, "nothing is left to do", process)
        process.send_signal(signal.SIGTERM)
        assert harness.end_of(process) == 0
    assert len(harness.faulty_at()) >= len(set(boundaries) - MAY_BE_CROSSED) * 2 // 3, harness.crossed()
    harness.finish()
    harness.check()


if SOAK:

    @pytest.mark.parametrize("boundary", BOUNDARIES)
    @pytest.mark.parametrize("fault", sorted(FAULTS))
    def test_every_fault_at_every_boundary(harness: Harness, fault: str, boundary: str) -> None:
        if fault == "storage_lies" and not boundary.endswith(("put_file.before", "put_bytes.before")):
            pytest.skip("only a write can be short")
        with harness.worker(fault, [boundary], job_deadline_seconds=10) as process:
            stopped = psutil.Process(process.pid)

            def is_over() -> bool:
                return process.poll() is not None or harness.is_at_rest() or stopped.status() == psutil.STATUS_STOPPED

            harness.until(is_over, f"{fault} at {boundary} is over")
            harness.finish()
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
                process.wait(DEADLINE_SECONDS)
        harness.check()
