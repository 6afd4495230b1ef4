"""What only a local folder can get wrong."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from vodpress.adapters.storage.local import LocalObjectStore
from vodpress.domain.failure import Failure
from vodpress.ports import ObjectMissing

Call = Callable[[], Awaitable[object]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
def local(root: Path) -> LocalObjectStore:
    return LocalObjectStore(root)


async def test_a_vanished_root_is_a_failure_and_not_an_empty_store(local: LocalObjectStore, root: Path) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"x"

    await local.put_bytes("a", b"x")
    root.rename(root.with_name("unmounted"))
    (source := root.with_name("in")).write_bytes(b"x")

    async def listed() -> list[str]:
        return [facts.key async for facts in local.list("")]

    calls: Sequence[Call] = [
        lambda: local.head("a"),
        lambda: local.get_bytes("a"),
        lambda: local.get_file("a", root.with_name("out")),
        lambda: local.put_bytes("b", b"x"),
        lambda: local.put_file("b", source),
        lambda: local.put_stream("b", stream()),
        lambda: local.move("a", "b"),
        lambda: local.copy("a", "b"),
        listed,
    ]
    for call in calls:
        with pytest.raises(Failure) as caught:
            await call()
        assert caught.value.code == "storage_unavailable"
    assert not root.exists()


async def test_a_tidied_partial_folder_is_made_again(local: LocalObjectStore, root: Path) -> None:
    (root / ".partial").rmdir()
    await local.put_bytes("a", b"x")
    (root / ".partial").rmdir()
    await local.copy("a", "b")
    assert await local.get_bytes("b") == b"x"


async def test_the_path_is_the_objects_own_file(local: LocalObjectStore, root: Path) -> None:
    await local.put_bytes("v/a.mp4", b"x")
    path = local.local_path("v/a.mp4")
    assert path == root / "v" / "a.mp4"
    assert path.read_bytes() == b"x"


async def test_empty_folders_go_away(local: LocalObjectStore, root: Path) -> None:
    await local.put_bytes("v/a/b/1", b"x")
    await local.put_bytes("v/c", b"x")
    await local.delete(["v/a/b/1"])
    assert sorted(path.name for path in (root / "v").iterdir()) == ["c"]
    await local.move("v/c", "w/c")
    assert sorted(path.name for path in root.iterdir()) == [".partial", "w"]


async def test_writes_survive_others_that_tidy_their_folder(local: LocalObjectStore) -> None:
    async def write(number: int) -> None:
        for _ in range(20):
            await local.put_bytes(f"v/a/b/{number}", b"x")
            await local.delete([f"v/a/b/{number}"])

    await asyncio.gather(*(write(number) for number in range(8)))
    assert [facts.key async for facts in local.list("")] == []


async def test_a_copy_shares_the_file_but_no_write(local: LocalObjectStore, root: Path) -> None:
    await local.put_bytes("a", b"one")
    os.utime(root / "a", (0, 0))
    started = time.time()
    await local.copy("a", "b")
    assert (root / "a").samefile(root / "b")
    facts = await local.head("b")
    assert facts is not None
    assert facts.modified_at >= started - 1  # young: a sweep by age must not take it
    writes: Sequence[Call] = [lambda: local.put_bytes("a", b"two"), lambda: local.copy("c", "a")]
    for write in writes:
        await local.put_bytes("c", b"two")
        await write()
        assert await local.get_bytes("a") == b"two"
        assert await local.get_bytes("b") == b"one"


async def test_a_copy_of_what_is_deleted_meanwhile(local: LocalObjectStore) -> None:
    async def copy() -> bool:
        try:
            await local.copy("a", "b")
        except ObjectMissing:
            return False
        return True

    for _ in range(50):
        await local.put_bytes("a", b"x")
        copied, _ = await asyncio.gather(copy(), local.delete(["a"]))
        assert (await local.head("b") is not None) == copied
        await local.delete(["b"])


async def test_links_and_strange_files_are_no_objects(local: LocalObjectStore, root: Path) -> None:
    (root / "folder-link").symlink_to(root.parent)
    (root / "link").symlink_to(root / "nowhere")
    os.mkfifo(root / "pipe")
    assert [facts.key async for facts in local.list("")] == []
    assert await local.head("pipe") is None
    assert await local.head("link") is None


async def test_a_sweep_takes_only_what_is_old(local: LocalObjectStore, root: Path) -> None:
    old, young = root / ".partial" / "old", root / ".partial" / "young"
    old.write_bytes(b"x")
    young.write_bytes(b"x")
    os.utime(old, (0, time.time() - 101))
    assert await local.sweep_partial(older_than_seconds=100) == 1
    assert [path.name for path in (root / ".partial").iterdir()] == ["young"]
