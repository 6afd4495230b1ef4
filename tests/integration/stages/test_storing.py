"""What a storage says of a write is not enough: it is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vodpress.adapters.storage import open_store
from vodpress.domain.failure import Failure
from vodpress.ports import ObjectStore
from vodpress.stages.services import Policies, Services

NOTHING: Any = None


def services(store: ObjectStore, scratch: Path) -> Services:
    return Services(
        work=NOTHING,
        store=store,
        prober=NOTHING,
        transcoder=NOTHING,
        packager=NOTHING,
        scratch=scratch,
        policies=Policies(disk_reserve_bytes=0, decode_check="none", verify_decode="none"),
        now=lambda: "2026-01-01T00:00:00Z",
    )


class Forgetful:
    """A storage that confirms a write of which it kept `kept` bytes, or nothing."""

    def __init__(self, store: ObjectStore, kept: int | None) -> None:
        self._store = store
        self._kept = kept

    async def put_file(self, key: str, path: Path) -> None:
        if self._kept is not None:
            await self._store.put_bytes(key, path.read_bytes()[: self._kept])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_file_that_arrived_whole_is_fine(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    await services(store, tmp_path).store_file("a/file", file)
    assert await store.get_bytes("a/file") == b"12345"


@pytest.mark.parametrize("kept", [None, 0, 4])
async def test_a_write_that_was_not_made_is_a_failure_of_the_storage(tmp_path: Path, kept: int | None) -> None:
    store: Any = Forgetful(open_store(str(tmp_path / "store")), kept)
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    with pytest.raises(Failure) as caught:
        await services(store, tmp_path).store_file("a/file", file)
    assert (caught.value.code, caught.value.kind) == ("storage_unavailable", "infrastructure")
    assert "5 bytes were sent" in caught.value.detail
