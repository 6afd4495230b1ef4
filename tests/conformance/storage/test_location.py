"""From the settings to a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from vodpress.adapters.storage import open_store
from vodpress.adapters.storage.local import LocalObjectStore
from vodpress.adapters.storage.s3 import S3ObjectStore
from vodpress.domain.failure import Failure, InvalidRequest


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    places = {
        str(tmp_path / "plain"): tmp_path / "plain",
        "relative/folder": tmp_path / "relative" / "folder",
        "~/mine": tmp_path / "me" / "mine",
        f"file://{tmp_path}/with%20space": tmp_path / "with space",
        f"file://localhost{tmp_path}/host": tmp_path / "host",
    }
    for location, folder in places.items():
        store = open_store(location)
        assert isinstance(store, LocalObjectStore)
        assert store.local_path("a") == folder / "a"
        assert folder.is_dir()


def test_buckets() -> None:
    for location in ("s3://bucket", "s3://bucket/", "s3://bucket/some/prefix"):
        store = open_store(
            location,
            endpoint="http://127.0.0.1:1",
            region="eu-central-1",
            access_key_id="id",
            secret_access_key=SecretStr("secret"),
        )
        assert isinstance(store, S3ObjectStore)


@pytest.mark.parametrize(
    "location",
    ["s3://", "s3:///prefix", "s3://bucket/prefix?x=1", "gs://bucket", "http://host/x", "file://host/x", "file:///"],
)
def test_what_is_no_place(location: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_store(location)
    assert caught.value.code == "invalid_storage_url"


@pytest.mark.parametrize("endpoint", ["localhost:8333", "127.0.0.1", "ftp://host", "http://"])
def test_what_is_no_endpoint(endpoint: str) -> None:
    with pytest.raises(InvalidRequest, match="s3_endpoint"):
        open_store("s3://bucket", endpoint=endpoint)


def test_a_prefix_must_be_a_key() -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_store("s3://bucket/a//b")
    assert caught.value.code == "invalid_key"


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure) as caught:
        open_store(str(tmp_path / "file" / "below"))
    assert caught.value.code == "storage_unavailable"
