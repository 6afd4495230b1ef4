"""What holds of an installation at rest, whatever happened before."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

LOOK_SECONDS = 0.005
DEAD_ATTEMPTS_LEFT = re.compile(r"\.partial|^incoming/|/slices/")
"""Objects that an attempt which died may leave until they are swept."""


def rows(conninfo: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(conninfo, row_factory=dict_row) as connection:
        return connection.execute(query.encode()).fetchall()


def check(conninfo: str, home: Path) -> None:
    """The asset is ready and everything about it is whole, once, and consistent."""
    (asset,) = rows(conninfo, "SELECT * FROM assets")
    letters = rows(conninfo, "SELECT * FROM dead_letters WHERE resolution IS NULL")
    assert asset["state"] == "ready", (asset["state"], letters)
    assert letters == []
    _check_rows(conninfo)
    _check_objects(conninfo, home / "storage")
    _check_events(conninfo)


def _check_rows(conninfo: str) -> None:
    (plan,) = rows(conninfo, "SELECT * FROM plans")
    renditions = rows(conninfo, "SELECT * FROM renditions ORDER BY id")
    assert plan["state"] == "published"
    assert plan["renditions_open"] == sum(r["state"] not in {"completed", "waived"} for r in renditions) == 0
    for rendition in renditions:
        parts = rows(conninfo, f"SELECT * FROM slices WHERE rendition_id = {rendition['id']}")
        assert rendition["slices_open"] == sum(part["state"] != "completed" for part in parts) == 0
    jobs = rows(conninfo, "SELECT * FROM procrastinate_jobs")
    assert {str(job["status"]) for job in jobs} == {"succeeded"}
    packaged = Counter(job["args"]["version"] for job in jobs if job["task_name"] == "package")
    manifests = rows(conninfo, "SELECT version, document FROM manifests ORDER BY version")
    assert packaged == {manifest["version"]: 1 for manifest in manifests}, "one packaging a version"
    contents = [(len(m["document"]["renditions"]), bool(m["document"]["images"])) for m in manifests]
    assert contents in ([(len(renditions) - 1, True)], [(len(renditions) - 1, False), (len(renditions) - 1, True)])


def _check_objects(conninfo: str, storage: Path) -> None:
    """Every object is recorded with its checksum, and every recorded one is there."""
    found = {path.relative_to(storage).as_posix(): path for path in storage.rglob("*") if path.is_file()}
    expected: dict[str, str | None] = {}
    for row in rows(conninfo, "SELECT key, sha256 FROM renditions"):
        expected[row["key"]] = row["sha256"]
    for row in rows(conninfo, "SELECT source_key AS key, source_sha256 AS sha256 FROM assets"):
        expected[row["key"]] = row["sha256"]
    for row in rows(conninfo, "SELECT images FROM plans"):
        expected |= {file["key"]: file["sha256"] for file in row["images"]["files"]}
    for row in rows(conninfo, "SELECT prefix, sha256, document FROM manifests"):
        expected[row["prefix"] + "manifest.json"] = row["sha256"]
        document = row["document"]
        for group in (*document["renditions"], *document["audio"], document["images"], document["playback"]):
            expected |= {row["prefix"] + file["path"]: file["sha256"] for file in group.get("files", ())}
    left = {key for key in found.keys() - expected.keys() if not DEAD_ATTEMPTS_LEFT.search(key)}
    # Images that came after a version had been given its contents lie in no version but the next.
    assert left == set(), "objects that nobody knows"
    for key, sha256 in expected.items():
        assert key in found, f"{key} is recorded and not there"
        assert hashlib.sha256(found[key].read_bytes()).hexdigest() == sha256, f"{key} has other bytes than recorded"


def _check_events(conninfo: str) -> None:
    told = Counter(row["type"] for row in rows(conninfo, "SELECT type FROM outbox"))
    renditions = rows(conninfo, "SELECT count(*) AS n FROM renditions")[0]["n"]
    manifests = rows(conninfo, "SELECT count(*) AS n FROM manifests")[0]["n"]
    once = ("video.upload.completed", "video.asset.processing", "video.asset.ready")
    assert {name: told[name] for name in once} == dict.fromkeys(once, 1)
    assert told["video.rendition.completed"] == renditions
    assert told["video.manifest.published"] == manifests


@contextmanager
def watched(storage: Path) -> Iterator[None]:
    """Look all the while, as a player or a cache would: where a manifest is, all that it lists is there, whole."""
    seen: list[str] = []
    over = threading.Event()

    def watch() -> None:
        known: set[Path] = set()
        while not over.wait(LOOK_SECONDS):
            for path in set(storage.glob("videos/*/*/*/v*/manifest.json")) - known:
                known.add(path)
                seen.extend(_missing(path))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    assert seen == [], "a manifest was there before what it lists"


def _missing(manifest: Path) -> Iterator[str]:
    document = json.loads(manifest.read_bytes())
    for group in (*document["renditions"], *document["audio"], document["images"], document["playback"]):
        for file in group.get("files", ()):
            path = manifest.parent / file["path"]
            if not path.is_file() or path.stat().st_size != file["bytes"]:
                yield str(path)
