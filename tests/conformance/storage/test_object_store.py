"""What the port promises, on every storage."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vodpress.domain.failure import InvalidRequest
from vodpress.ports import ObjectExists, ObjectMissing, ObjectStore

if TYPE_CHECKING:
    from tests.conformance.storage.conftest import Leftovers

MIB = 1024 * 1024
LARGE = 9 * MIB  # more than one part
BAD_KEYS = [
    "", "/a", "a/", "a//b", "../a", "a/../b", "a/./b", ".", "a\\b", "a\nb", "a\x00b", "\ud800", ".partial/a",
    ".partial", "x" * 256, "/".join(["x" * 200] * 6),
]  # fmt: skip

Call = Callable[[], Awaitable[object]]


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def keys(store: ObjectStore, prefix: str) -> set[str]:
    return {facts.key async for facts in store.list(prefix)}


def pattern(size: int, seed: int = 0) -> bytes:
    block = hashlib.sha512(str(seed).encode()).digest()
    return (block * (size // len(block) + 1))[:size]


@pytest.mark.parametrize("size", [0, 1, MIB + 1, LARGE])
async def test_what_is_put_comes_back(store: ObjectStore, tmp_path: Path, size: int) -> None:
    data = pattern(size)
    (tmp_path / "in").write_bytes(data)
    await store.put_bytes("k/bytes", data)
    await store.put_file("k/file", tmp_path / "in")
    await store.put_stream("k/stream", chunks(data[: size // 3], b"", data[size // 3 :]))
    for key in ("k/bytes", "k/file", "k/stream"):
        assert await store.get_bytes(key) == data
        await store.get_file(key, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == data
        facts = await store.head(key)
        assert facts is not None
        assert (facts.key, facts.bytes) == (key, size)


async def test_facts_have_the_time_of_the_write(store: ObjectStore) -> None:
    before = time.time()
    await store.put_bytes("a", b"x")
    after = time.time()
    facts = await store.head("a")
    assert facts is not None
    assert before - 2 <= facts.modified_at <= after + 2  # S3 counts whole seconds


async def test_any_text_makes_a_key(store: ObjectStore) -> None:
    key = "ünï/côdé 🎬/%20 +&?#=;'\"<>.mp4"
    await store.put_bytes(key, b"x")
    assert await store.get_bytes(key) == b"x"
    assert await keys(store, "") == {key}
    await store.copy(key, "copy " + key)
    await store.delete([key])
    assert await keys(store, "") == {"copy " + key}


async def test_a_put_replaces(store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"file")
    await store.put_bytes("a", b"a longer first one")
    await store.put_bytes("a", b"bytes")
    assert await store.get_bytes("a") == b"bytes"
    await store.put_file("a", tmp_path / "in")
    assert await store.get_bytes("a") == b"file"
    await store.put_stream("a", chunks(b"stream"))
    assert await store.get_bytes("a") == b"stream"


async def test_what_is_not_there_is_missing(store: ObjectStore, tmp_path: Path) -> None:
    await store.put_bytes("a/b", b"x")
    for key in ("none", "a", "a/b/c", "a/none"):
        assert await store.head(key) is None
        with pytest.raises(ObjectMissing):
            await store.get_bytes(key)
        with pytest.raises(ObjectMissing):
            await store.get_file(key, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        with pytest.raises(ObjectMissing):
            await store.copy(key, "target")
        with pytest.raises(ObjectMissing):
            await store.move(key, "target")
    assert await keys(store, "") == {"a/b"}


@pytest.mark.parametrize("size", [10, LARGE])
async def test_create_only_leaves_what_is_there(
    store: ObjectStore, leftovers: Leftovers, tmp_path: Path, size: int
) -> None:
    (tmp_path / "in").write_bytes(pattern(size))
    await store.put_file("a", tmp_path / "in", create_only=True)
    with pytest.raises(ObjectExists):
        await store.put_file("a", tmp_path / "in", create_only=True)
    with pytest.raises(ObjectExists):
        await store.put_bytes("a", b"other", create_only=True)
    assert await store.get_bytes("a") == pattern(size)
    assert await keys(store, "") == {"a"}
    assert leftovers() == []


@pytest.mark.parametrize(("writers", "size"), [(16, 1000), (4, LARGE)])
async def test_of_many_creators_one_wins(store: ObjectStore, tmp_path: Path, writers: int, size: int) -> None:
    together = asyncio.Barrier(writers)

    async def write(number: int) -> bool:
        path = tmp_path / str(number)
        path.write_bytes(pattern(size, number))
        await together.wait()
        try:
            await store.put_file("race", path, create_only=True)
        except ObjectExists:
            return False
        return True

    won = await asyncio.gather(*(write(number) for number in range(writers)))
    assert sum(won) == 1
    assert await store.get_bytes("race") == pattern(size, won.index(True))
    assert await keys(store, "") == {"race"}


@pytest.mark.parametrize("error", [RuntimeError("hung up"), FileNotFoundError("gone"), OSError(28, "no space")])
@pytest.mark.parametrize("before", [0, 10, 2 * MIB, 40 * MIB])
async def test_a_stream_that_raises_leaves_nothing(
    store: ObjectStore, leftovers: Leftovers, error: Exception, before: int
) -> None:
    await store.put_bytes("old", b"kept")

    async def broken() -> AsyncIterator[bytes]:
        for _ in range(0, before, MIB):
            yield bytes(min(before, MIB))
        raise error

    for key in ("new", "old"):
        with pytest.raises(type(error)) as caught:
            await store.put_stream(key, broken())
        assert caught.value is error
    assert await keys(store, "") == {"old"}
    assert await store.get_bytes("old") == b"kept"
    assert leftovers() == []


@pytest.mark.parametrize("before", [10, 40 * MIB])
async def test_a_cancelled_put_leaves_nothing(store: ObjectStore, leftovers: Leftovers, before: int) -> None:
    waits, closed = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            for _ in range(0, before, MIB):
                yield bytes(min(before, MIB))
            waits.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    put = asyncio.create_task(store.put_stream("a", endless()))
    await waits.wait()
    if before > MIB:
        await asyncio.to_thread(leftovers.await_some)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put
    await closed.wait()  # what it read from was closed, too
    assert await keys(store, "") == set()
    assert leftovers() == []


async def test_list_goes_by_whole_segments(store: ObjectStore) -> None:
    for key in ("v/a/1", "v/a/b/2", "v/ab/3", "v/a.txt", "va/4", "w"):
        await store.put_bytes(key, key.encode())
    assert await keys(store, "v/a/") == {"v/a/1", "v/a/b/2"}
    assert await keys(store, "v/") == {"v/a/1", "v/a/b/2", "v/ab/3", "v/a.txt"}
    assert await keys(store, "") == {"v/a/1", "v/a/b/2", "v/ab/3", "v/a.txt", "va/4", "w"}
    assert await keys(store, "none/") == set()
    assert await keys(store, "w/") == set()
    assert {facts.key: facts.bytes async for facts in store.list("v/a/")} == {"v/a/1": 5, "v/a/b/2": 7}
    for prefix in ("v", "v/a", "/", "../", ".partial/"):
        with pytest.raises(InvalidRequest):
            await keys(store, prefix)


async def test_list_has_no_end_at_a_thousand(store: ObjectStore) -> None:
    wanted = {f"many/{number:04d}" for number in range(1005)}
    turns = asyncio.Semaphore(32)

    async def put(key: str) -> None:
        async with turns:
            await store.put_bytes(key, b"x")

    await asyncio.gather(*(put(key) for key in wanted))
    found = [facts.key async for facts in store.list("many/")]
    assert len(found) == len(wanted)
    assert set(found) == wanted
    await store.delete(sorted(wanted))
    assert await keys(store, "") == set()


async def test_move_can_be_repeated(store: ObjectStore) -> None:
    await store.put_bytes("incoming/1", b"x")
    await store.move("incoming/1", "sources/1")
    await store.move("incoming/1", "sources/1")
    assert await keys(store, "") == {"sources/1"}
    await store.put_bytes("incoming/1", b"newer")
    await store.move("incoming/1", "sources/1")
    assert await store.get_bytes("sources/1") == b"newer"
    await store.move("sources/1", "sources/1")
    assert await store.get_bytes("sources/1") == b"newer"
    assert await keys(store, "") == {"sources/1"}


async def test_a_copy_is_an_object_of_its_own(store: ObjectStore, leftovers: Leftovers) -> None:
    await store.put_bytes("a/1", b"one")
    await store.copy("a/1", "b/1")
    await store.copy("a/1", "b/1")  # a repeated attempt
    assert await store.get_bytes("b/1") == b"one"
    await store.put_bytes("a/1", b"another")
    assert await store.get_bytes("b/1") == b"one"
    await store.put_bytes("c", b"replaced")
    await store.copy("b/1", "c")
    await store.delete(["b/1"])
    assert await store.get_bytes("c") == b"one"
    await store.copy("c", "c")
    assert await store.get_bytes("c") == b"one"
    assert await keys(store, "") == {"a/1", "c"}
    assert leftovers() == []


async def test_moving_a_copy_over_its_original(store: ObjectStore) -> None:
    await store.put_bytes("a", b"x")
    await store.copy("a", "b")
    await store.move("a", "b")
    assert await keys(store, "") == {"b"}
    assert await store.get_bytes("b") == b"x"


async def test_deleting_what_is_not_there(store: ObjectStore) -> None:
    await store.put_bytes("a/b", b"x")
    await store.delete([])
    await store.delete(["none", "a", "a/b/c", "a/b", "a/b"])
    assert await keys(store, "") == set()


@pytest.mark.parametrize("key", BAD_KEYS, ids=[repr(key)[:20] for key in BAD_KEYS])
async def test_bad_keys_are_refused(store: ObjectStore, tmp_path: Path, key: str) -> None:
    (tmp_path / "in").write_bytes(b"x")
    calls: Sequence[Call] = [
        lambda: store.put_bytes(key, b"x"),
        lambda: store.put_file(key, tmp_path / "in"),
        lambda: store.put_stream(key, chunks(b"x")),
        lambda: store.get_bytes(key),
        lambda: store.get_file(key, tmp_path / "out"),
        lambda: store.head(key),
        lambda: store.move(key, "a"),
        lambda: store.move("a", key),
        lambda: store.copy(key, "a"),
        lambda: store.copy("a", key),
        lambda: store.delete(["a", key]),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest) as caught:
            await call()
        assert caught.value.code == "invalid_key"
    with pytest.raises(InvalidRequest):
        store.local_path(key)
    assert not (tmp_path / "out").exists()


async def test_readers_see_whole_objects_while_a_writer_replaces_them(store: ObjectStore) -> None:
    versions = [pattern(200_000, number) for number in range(8)]
    await store.put_bytes("a", versions[0])
    written = asyncio.Event()

    async def write() -> None:
        for version in versions:
            await store.put_bytes("a", version)
        written.set()

    async def read() -> int:
        seen = 0
        while not written.is_set():
            assert await store.get_bytes("a") in versions
            seen += 1
        return seen

    _, *seen = await asyncio.gather(write(), read(), read())
    assert all(seen)


async def test_neighbours_come_and_go(store: ObjectStore) -> None:
    """Many writers whose objects share a prefix that is empty now and then: none stumbles over another's clean-up."""

    async def pass_through(number: int) -> None:
        for turn in range(20):
            await store.put_bytes(f"incoming/{number}-{turn}", b"x")
            await store.move(f"incoming/{number}-{turn}", f"kept/{number}/{turn}/source")
            await store.delete([f"incoming/{number}-{turn}"])
            assert await store.get_bytes(f"kept/{number}/{turn}/source") == b"x"
            await store.delete([f"kept/{number}/{turn}/source"])

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(pass_through(number))
    assert [facts.key async for facts in store.list("incoming/")] == []
    assert [facts.key async for facts in store.list("kept/")] == []
