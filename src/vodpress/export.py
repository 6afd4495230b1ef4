"""Bring a published version to a folder of the user's: a complete result or nothing."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vodpress.domain.failure import Failure, InvalidRequest
from vodpress.domain.keys import MANIFEST_NAME
from vodpress.domain.manifest import files_of
from vodpress.ports import ManifestRecord, ObjectStore

MARK = ".vodpress-partial-"
_NAME_BYTES_LIMIT = 200


async def export(record: ManifestRecord, *, store: ObjectStore, out: Path, stem: str) -> Path:
    """Copy a version into a new folder below `out`, named after `stem`, with every checksum compared on the way.

    Returns:
        The folder's manifest.

    Raises:
        InvalidRequest: `output_unwritable`.
        Failure: `disk_full`, `output_unverified`, or what the storage raises.
    """
    partial = require_writable(out)
    try:
        await _fill(partial, record, store)
        partial.chmod(0o755)
        return await asyncio.to_thread(_appear, partial, out, folder_name(stem)) / MANIFEST_NAME
    finally:
        await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)


def require_writable(out: Path) -> Path:
    """Make a new, empty, hidden folder in `out`, which is made where it is missing.

    Raises:
        InvalidRequest: `output_unwritable`.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=MARK, dir=out))
    except OSError as error:
        raise InvalidRequest("output_unwritable", f"{out}: {error.strerror}. Choose another --out folder.") from error


def folder_name(stem: str) -> str:
    """A safe folder name that still resembles the file's."""
    cleaned = re.sub(r"[\x00-\x1f\x7f/\\]+", "_", as_text(stem)).strip(". ") or "video"
    return cleaned.encode()[:_NAME_BYTES_LIMIT].decode(errors="ignore")


def as_text(name: str) -> str:
    """A file's name as text that can be stored; bytes that are no UTF-8 are replaced."""
    return os.fsencode(name).decode(errors="replace")


async def _fill(folder: Path, record: ManifestRecord, store: ObjectStore) -> None:
    for path, facts in files_of(record.document):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        await store.get_file(record.prefix + path, target)
        await asyncio.to_thread(_compare, target, path, facts)
    await store.get_file(record.prefix + MANIFEST_NAME, folder / MANIFEST_NAME)


def _compare(target: Path, path: str, facts: Mapping[str, Any]) -> None:
    with target.open("rb") as file:
        seen = hashlib.file_digest(file, "sha256").hexdigest()
    if seen != facts["sha256"]:
        raise Failure(
            "output_unverified",
            f"{path} in the storage differs from the manifest.",
            detail=f"{seen} ≠ {facts['sha256']}",
        )


def _appear(partial: Path, out: Path, name: str) -> Path:
    """Rename the finished folder to the first free name."""
    for candidate in _candidates(out, name):
        try:
            # An empty folder as a claim on the name: rename() replaces it atomically, and fails on one with content.
            candidate.mkdir()
        except FileExistsError:
            continue
        os.replace(partial, candidate)  # noqa: PTH105 - replaces an empty directory, as rename(2) does
        return candidate
    raise InvalidRequest("output_unwritable", f"{out} has too many folders named {name}.")


def _candidates(out: Path, name: str) -> Iterator[Path]:
    yield out / name
    for number in range(2, 10_000):
        yield out / f"{name}-{number}"
