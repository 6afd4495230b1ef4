"""Writers that are killed, large objects in little memory, and disks that are full: in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vodpress.adapters.storage.local import LocalObjectStore
from vodpress.ports import ObjectStore

if TYPE_CHECKING:
    from tests.conformance.storage.conftest import Leftovers, Place

MIB = 1024 * 1024

WRITE_FOR_EVER = """
import asyncio, json, sys
from vodpress.adapters.storage import open_store

async def chunks():
    for _ in range(40):
        yield bytes(1 << 20)
    print("begun", flush=True)
    await asyncio.Event().wait()

store = open_store(sys.argv[1], **json.loads(sys.argv[2]))
asyncio.run(store.put_stream(sys.argv[3], chunks()))
"""


def start(program: str, place: Place, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", program, place.location, json.dumps(place.options), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


async def test_a_killed_writer_leaves_no_object(
    place: Place, store: ObjectStore, kind: str, leftovers: Leftovers
) -> None:
    await store.put_bytes("old", b"kept")
    for key in ("new", "old"):
        with start(WRITE_FOR_EVER, place, key) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"begun\n"
            leftovers.await_some()
            writer.send_signal(signal.SIGKILL)
        assert writer.returncode == -signal.SIGKILL
        assert {facts.key async for facts in store.list("")} == {"old"}
        assert await store.get_bytes("old") == b"kept"
        if kind == "local":
            await _sweep(Path(place.location), leftovers)
        else:
            assert leftovers()  # no object: the bucket's own rules remove it
    # It is in nobody's way afterwards.
    await store.put_bytes("new", b"x", create_only=True)
    assert await store.get_bytes("new") == b"x"


async def _sweep(root: Path, leftovers: Leftovers) -> None:
    store = LocalObjectStore(root)
    (left,) = leftovers()
    assert await store.sweep_partial(older_than_seconds=3600) == 0  # it might be alive
    assert list(leftovers()) == [left]
    os.utime(root / ".partial" / left, (0, time.time() - 3601))
    assert await store.sweep_partial(older_than_seconds=3600) == 1
    assert leftovers() == []


CARRY = """
import asyncio, hashlib, json, pathlib, re, sys
from vodpress.adapters.storage import open_store

SIZE = int(sys.argv[4]) << 20
folder = pathlib.Path(sys.argv[3])

def chunk(number):
    return number.to_bytes(8, "big") * (1 << 17)

async def chunks():
    for number in range(SIZE >> 20):
        yield chunk(number)

def resident_mib(which):
    return int(re.search(which + r":\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) >> 10

async def main():
    store = open_store(sys.argv[1], **json.loads(sys.argv[2]))
    await store.put_bytes("warm-up", bytes(1 << 20), create_only=True)
    before = resident_mib("VmRSS")
    wanted = hashlib.sha256()
    for number in range(SIZE >> 20):
        wanted.update(chunk(number))
    await store.put_stream("stream", chunks())
    await store.get_file("stream", folder / "one")
    await store.put_file("file", folder / "one")
    await store.copy("file", "copy")
    await store.get_file("copy", folder / "two")
    with (folder / "two").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").digest() == wanted.digest()
    print(resident_mib("VmHWM") - before)  # the peak; what getrusage tells includes that of the parent

asyncio.run(main())
"""


def test_large_objects_need_little_memory(place: Place, kind: str, tmp_path: Path) -> None:
    # What a server and a client have in flight depends on how busy both are; a whole object would be twice the limit.
    size_mib, most_mib = (64, 16) if kind == "local" else (256, 128)
    with start(CARRY, place, str(tmp_path), str(size_mib)) as carrier:
        assert carrier.stdout is not None
        grown_mib = int(carrier.stdout.read())
    assert carrier.returncode == 0
    assert grown_mib < most_mib


FILL = """
import asyncio, json, os, pathlib, resource, sys
from vodpress.adapters.storage.local import LocalObjectStore
from vodpress.domain.failure import Failure

root, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
large = folder / "large"
with large.open("wb") as file:
    for _ in range(16):
        file.write(os.urandom(1 << 20))
if sys.argv[3] == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))

async def chunks():
    for _ in range(16):
        yield os.urandom(1 << 20)

async def main():
    store = LocalObjectStore(root)
    await store.put_bytes("old", b"kept")
    seen = []
    for put in (
        lambda: store.put_file("a", large), lambda: store.put_file("old", large),
        lambda: store.put_file("a", large, create_only=True), lambda: store.put_bytes("a", large.read_bytes()),
        lambda: store.put_stream("a", chunks()),
    ):
        try:
            await put()
        except Failure as failure:
            seen.append(failure.code)
    left = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    print(json.dumps({"seen": seen, "left": left, "old": (await store.get_bytes("old")).decode()}))

asyncio.run(main())
"""

ALL_FULL = {"seen": ["disk_full"] * 5, "left": ["old"], "old": "kept"}


def test_a_file_larger_than_the_limit_is_a_full_disk(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILL, str(tmp_path / "objects"), str(tmp_path), "limit"]
    assert json.loads(subprocess.check_output(command)) == ALL_FULL


def test_a_full_disk(tmp_path: Path, require: Callable[..., Any]) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    # A file system of our own, in a namespace that ends with the program: no privileges, nothing to unmount.
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount += ['mount -t tmpfs -o size=8m tmpfs "$1" && shift && exec "$@"', "sh", str(disk)]
    require("user namespaces", "The kernel must allow them.", found=_succeeds([*mount, "true"]))
    command = [*mount, sys.executable, "-c", FILL, str(disk / "objects"), str(tmp_path), "real"]
    assert json.loads(subprocess.check_output(command)) == ALL_FULL


def _succeeds(command: list[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
    except FileNotFoundError:
        return False
