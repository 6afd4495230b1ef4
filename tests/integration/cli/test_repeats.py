"""The same work a second time: found, copied, or made anew beside the old; and byte for byte the same elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.conftest import temporary_home
from tests.integration.cli.conftest import RUNGS, SLICES
from tests.integration.cli.console import Ended, Vodpress


def jobs(vodpress: Vodpress, ended: Ended) -> dict[str, int]:
    """Job kind → how many were ever made for the asset."""
    counts: dict[str, int] = {}
    for job in vodpress.json("queue", "list"):
        if job["asset"] == ended.document["asset"]:
            counts[job["kind"]] = counts.get(job["kind"], 0) + 1
    return counts


def once(counts: dict[str, int]) -> dict[str, int]:
    """Without the jobs that are repeated when images come after the video: then it is packaged again with them."""
    return {kind: count for kind, count in counts.items() if kind != "package"}


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def manifest(ended: Ended) -> Any:
    return json.loads(Path(ended.document["manifest"]).read_bytes())


def test_the_same_file_with_the_same_ladder_is_found(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path
) -> None:
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    first = vodpress.run(*command)
    assert first.status == 0, first
    assert not first.document["reused"]
    made = jobs(vodpress, first)
    assert once(made) == {"ingest": 1, "encode": SLICES + 1, "stitch": len(RUNGS), "thumbnails": 1}
    objects, slices = vodpress.objects(), vodpress.slices()

    second = vodpress.run(*command)
    assert second.status == 0, second
    assert second.document["reused"]
    assert second.document["asset"] == first.document["asset"]
    assert jobs(vodpress, second) == {**made, "ingest": 2}
    assert vodpress.objects() == objects
    assert vodpress.slices() == slices
    assert [path.name for path in sorted(out.iterdir())] == ["clip", "clip-2"]
    assert files(out / "clip") == files(out / "clip-2")


def test_a_changed_ladder_encodes_anew_and_the_old_version_stays(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.toml"
    changed.write_text(ladder_file.read_text().replace("crf = 35, maxrate_kbps = 200", "crf = 30, maxrate_kbps = 200"))
    first = vodpress.run("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    objects = vodpress.objects("videos/")
    second = vodpress.run("process", clip, "--out", out, "--ladder", changed, "--json")
    assert second.status == 0, second
    assert not second.document["reused"]
    assert second.document["asset"] == first.document["asset"]
    old, new = manifest(first), manifest(second)
    assert old["version"] < new["version"]
    assert old["plan_hash"] != new["plan_hash"]
    after = vodpress.objects("videos/")
    assert {key: after[key] for key in objects} == objects
    plans = {tuple(key.split("/")[:4]) for key in after if key.endswith("/manifest.json")}
    assert {plan[-1] for plan in plans} == {old["plan_hash"][:16], new["plan_hash"][:16]}
    shown = vodpress.json("asset", "show", first.document["asset"])
    assert shown["version"] == new["version"]
    assert [(plan["plan_hash"], plan["state"]) for plan in shown["plans"]] == [
        (old["plan_hash"], "published"),
        (new["plan_hash"], "published"),
    ]
    # What the change left alone was copied: one rung was encoded again, the other and the sound were not.
    renditions = {rung["name"]: [file["sha256"] for file in rung["files"]] for rung in old["renditions"] + old["audio"]}
    for rung in new["renditions"] + new["audio"]:
        same = [file["sha256"] for file in rung["files"]] == renditions[rung["name"]]
        assert same == (rung["name"] != "90p")
    encodes = [job for job in vodpress.json("queue", "list", "--queue", "encode") if job["kind"] == "encode"]
    assert [job["args"]["kind"] for job in encodes].count("audio") == 1

    back = vodpress.run("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    assert back.document["reused"]
    assert manifest(back) == old


def test_the_same_bytes_for_another_passthrough_are_copied(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path
) -> None:
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
    first = vodpress.run(*command, "--passthrough", "one")
    second = vodpress.run(*command, "--passthrough", "two")
    assert second.status == 0, second
    assert second.document["asset"] != first.document["asset"]
    assert second.document["reused"]
    assert once(jobs(vodpress, second)) == {"ingest": 1, "thumbnails": 1}
    one, two = manifest(first), manifest(second)
    assert one["plan_hash"] == two["plan_hash"]
    assert one["renditions"] == two["renditions"]
    assert one["audio"] == two["audio"]
    assert len(vodpress.objects("sources/")) == 1


def test_two_homes_make_the_same_bytes_at_the_same_keys(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path
) -> None:
    made = []
    with temporary_home() as other_home:
        # Regrouped: one worker here, four there.
        for console, workers in ((vodpress, 1), (Vodpress(other_home), 4)):
            ended = console.run(
                "process", clip, "--out", out, "--ladder", ladder_file, "--json", encode_jobs=workers, nice=0
            )
            assert ended.status == 0, ended
            prefix = f"videos/{ended.document['asset']}/"
            # A manifest names its asset; and late images give the same files another version.
            objects = {
                re.sub(r"/v\d+/", "/v/", key.removeprefix(prefix)): sha256
                for key, sha256 in console.objects(prefix).items()
                if not key.endswith("/manifest.json")
            }
            made.append((objects, console.objects("sources/")))
    assert made[0] == made[1]
    assert sum(key.endswith(".m4s") for key in made[0][0]) == SLICES * (len(RUNGS) + 1)
