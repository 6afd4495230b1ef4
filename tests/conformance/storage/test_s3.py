"""What only a server can get wrong, and what it may not be asked to do."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vodpress.adapters.storage.s3 import S3ObjectStore
from vodpress.domain.failure import Failure, InvalidRequest
from vodpress.ports import ObjectExists

if TYPE_CHECKING:
    from tests.conformance.storage.conftest import S3Server

pytestmark = pytest.mark.xdist_group("s3")
MIB = 1024 * 1024
Call = Callable[[], Awaitable[object]]


async def test_wrong_credentials_are_told(s3_server: S3Server) -> None:
    for changes in ({"secret_access_key": "wrong"}, {"access_key_id": "nobody"}):
        with pytest.raises(Failure, match="refused the credentials") as caught:
            await s3_server.open("credentials", **changes).put_bytes("a", b"x")
        assert caught.value.code == "storage_unavailable"
        assert "wrong" not in str(caught.value)


async def test_a_missing_bucket_is_told(s3_server: S3Server, tmp_path: Path) -> None:
    store = s3_server.open("", bucket="not-there")
    (tmp_path / "in").write_bytes(b"x")
    calls: Sequence[Call] = [lambda: store.put_bytes("a", b"x"), lambda: store.put_file("a", tmp_path / "in")]
    for call in calls:
        with pytest.raises(Failure, match="bucket does not exist"):
            await call()


async def test_a_server_that_is_not_there_is_told(s3_server: S3Server, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, but nobody listens
        store = s3_server.open("a", endpoint=f"http://127.0.0.1:{closed.getsockname()[1]}")
        (tmp_path / "in").write_bytes(bytes(9 * MIB))
        calls: Sequence[Call] = [
            lambda: store.head("a"),
            lambda: store.get_bytes("a"),
            lambda: store.put_file("a", tmp_path / "in"),
            lambda: store.copy("a", "b"),
            lambda: store.delete(["a"]),
        ]
        for call in calls:
            with pytest.raises(Failure) as caught:
                await call()
            assert caught.value.code == "storage_unavailable"


async def test_prefixes_are_apart(s3_server: S3Server) -> None:
    one, two = s3_server.open("apart/one"), s3_server.open("apart/one-more")
    await one.put_bytes("a", b"1")
    assert [facts.key async for facts in two.list("")] == []
    assert [facts.key async for facts in one.list("")] == ["a"]
    assert await two.head("a") is None


async def test_there_is_no_local_file(s3_server: S3Server) -> None:
    store = s3_server.open("local")
    await store.put_bytes("a", b"x")
    assert store.local_path("a") is None


async def test_what_the_server_may_not_copy_goes_through_here(s3_server: S3Server) -> None:
    clients = s3_server.open("through")
    assert isinstance(clients, S3ObjectStore)
    store = S3ObjectStore(clients._quick, clients._bulk, largest_copy_bytes=MIB)
    data = bytes(range(256)) * (17 * 4096)  # 17 MiB: three parts
    await store.put_bytes("a", data)
    await store.copy("a", "b")
    await store.move("a", "c")
    assert await store.get_bytes("b") == data
    assert await store.get_bytes("c") == data
    assert {facts.key async for facts in store.list("")} == {"b", "c"}


async def test_create_only_has_a_largest_size(s3_server: S3Server, tmp_path: Path) -> None:
    store = s3_server.open("largest")
    with (tmp_path / "in").open("wb") as file:
        file.truncate(64 * MIB)
    await store.put_file("a", tmp_path / "in", create_only=True)
    with pytest.raises(ObjectExists):
        await store.put_file("a", tmp_path / "in", create_only=True)
    with (tmp_path / "in").open("wb") as file:
        file.truncate(64 * MIB + 1)
    with pytest.raises(InvalidRequest) as caught:
        await store.put_file("b", tmp_path / "in", create_only=True)
    assert caught.value.code == "object_too_large"
    assert await store.head("b") is None
