"""The commands that look at and look after an installation: assets, events, queue, migrations, doctor, help."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import temporary_home
from tests.integration.cli.console import Vodpress

from vodpress.adapters.db.embedded import EmbeddedPostgres

COMMANDS = [
    "process", "probe", "plan", "migrate", "doctor", "asset list", "asset show", "asset why", "asset delete",
    "events list", "queue list",
]  # fmt: skip


@pytest.fixture(scope="module")
def known(clip: Path, ladder_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Vodpress, Any]]:
    """The command over a home with two assets of the same bytes, and a third that errored."""
    folder = tmp_path_factory.mktemp("known")
    (folder / "text.mp4").write_text("no video\n")
    with temporary_home() as home, EmbeddedPostgres(home):  # kept running, which is quicker
        vodpress = Vodpress(home)
        command = ("process", clip, "--out", folder, "--ladder", ladder_file, "--json", "--passthrough")
        documents = [vodpress.run(*command, name).document for name in ("one", "two")]
        documents += vodpress.run("process", folder / "text.mp4", "--out", folder, "--json").documents
        assert [document["state"] for document in documents] == ["ready", "ready", "errored"]
        yield vodpress, documents


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command: str, tmp_path: Path) -> None:
    ended = Vodpress(tmp_path / "home").run(*command.split(), "--help")
    assert ended.status == 0
    examples = ended.stdout.partition("Examples:")[2]
    assert re.search(rf"^ +(VODPRESS_\w+=\S+ )?vodpress {command}\b", examples, re.MULTILINE)
    assert "--json" in ended.stdout
    assert not (tmp_path / "home").exists()


def test_help_tells_the_exit_statuses(tmp_path: Path) -> None:
    for command in ([], ["process"], ["probe"], ["plan"], ["migrate"], ["doctor"]):
        told = Vodpress(tmp_path / "home").run(*command, "--help").stdout
        assert all(re.search(rf"\b{status} \w+", told) for status in (0, 2, 5, 6, 7, 8, 130)), told


def test_the_version_is_told(tmp_path: Path) -> None:
    ended = Vodpress(tmp_path / "home").run("--version")
    assert ended.status == 0
    assert re.fullmatch(r"vodpress \d+\.\d+\.\d+\n", ended.stdout)


def test_asset_list(known: tuple[Vodpress, Any]) -> None:
    vodpress, documents = known
    rows = vodpress.json("asset", "list")
    assert [row["asset"] for row in rows] == [document["asset"] for document in reversed(documents)]
    assert [row["passthrough"] for row in rows] == ["", "two", "one"]
    assert rows[0]["reason"]["code"] == "source_unreadable"
    assert len(vodpress.json("asset", "list", "--limit", "1")) == 1
    plain = vodpress.run("asset", "list").stdout.splitlines()
    assert plain[0].split() == ["asset", "state", "version", "created_at", "title"]
    assert plain[1].split()[:3] == [documents[2]["asset"], "errored", "-"]


def test_asset_show(known: tuple[Vodpress, Any]) -> None:
    vodpress, documents = known
    shown = vodpress.json("asset", "show", documents[0]["asset"][:12])
    assert shown["asset"] == documents[0]["asset"]
    assert (shown["state"], shown["blocked"]) == ("ready", False)
    (plan,) = shown["plans"]
    assert (plan["state"], plan["fraction"]) == ("published", 1)
    assert [rendition["state"] for rendition in plan["renditions"]] == ["completed"] * 3
    assert shown["jobs"] == {"running": 0, "waiting": 0, "delayed": 0}
    plain = vodpress.run("asset", "show", documents[0]["asset"])
    assert plain.status == 0
    assert "state: ready" in plain.stdout


def test_asset_why(known: tuple[Vodpress, Any]) -> None:
    vodpress, documents = known
    (why,) = vodpress.json("asset", "why", documents[0]["asset"])["why"]
    assert re.fullmatch(rf"Asset {documents[0]['asset']} is ready; version \d is live\.", why)
    told = vodpress.json("asset", "why", documents[2]["asset"])
    assert told["state"] == "errored"
    assert "source_unreadable" in told["why"][0]
    plain = vodpress.run("asset", "why", documents[2]["asset"])
    assert plain.stdout.splitlines() == told["why"]


@pytest.mark.parametrize("command", ["show", "why", "delete"])
def test_an_asset_that_is_not_there(command: str, known: tuple[Vodpress, Any]) -> None:
    vodpress, _ = known
    ended = vodpress.run("asset", command, "no-such-asset", "--json")
    assert (ended.status, ended.document["reason"]["code"]) == (2, "unknown_asset")
    assert ended.document["exit_code"] == 2


def test_a_beginning_that_fits_several_assets(known: tuple[Vodpress, Any]) -> None:
    vodpress, _ = known
    ended = vodpress.run("asset", "show", "", "--json")
    assert (ended.status, ended.document["reason"]["code"]) == (2, "ambiguous_asset")


def test_events_list(known: tuple[Vodpress, Any]) -> None:
    vodpress, documents = known
    events = vodpress.json("events", "list")
    positions = [event["position"] for event in events]
    assert positions == sorted(positions)
    assert {event["asset_id"] for event in events} == {document["asset"] for document in documents}
    assert all(re.match(r"video(\.[a-z_]+)+$", event["type"]) for event in events)
    later = vodpress.json("events", "list", "--after", str(positions[2]), "--limit", "2")
    assert later == events[3:5]
    plain = vodpress.run("events", "list", "--asset", documents[2]["asset"]).stdout.splitlines()
    assert plain[0].split() == ["position", "occurred_at", "type", "asset_id"]
    assert [line.split()[2] for line in plain[1:]] == [
        "video.upload.completed", "video.asset.processing", "video.asset.errored", "video.dead_letter.created",
    ]  # fmt: skip


def test_queue_list(known: tuple[Vodpress, Any]) -> None:
    vodpress, documents = known
    rows = vodpress.json("queue", "list")
    assert [row["id"] for row in rows] == sorted((row["id"] for row in rows), reverse=True)
    assert {row["state"] for row in rows if row["asset"] != documents[2]["asset"]} == {"succeeded"}
    assert {row["kind"] for row in vodpress.json("queue", "list", "--queue", "light")} == {"thumbnails", "package"}
    (failed,) = vodpress.json("queue", "list", "--state", "failed")
    assert (failed["kind"], failed["asset"], failed["attempt"]) == ("ingest", documents[2]["asset"], 1)
    assert vodpress.run("queue", "list", "--state", "lost").status == 2
    assert vodpress.run("queue", "list").stdout.splitlines()[0].split()[:3] == ["id", "queue", "kind"]


def test_asset_delete(vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path) -> None:
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json", "--passthrough")
    one, two = (vodpress.run(*command, name).document for name in ("one", "two"))
    unsure = vodpress.run("asset", "delete", one["asset"])
    assert unsure.status != 0
    assert len(vodpress.json("asset", "list")) == 2, "nobody answered the question"

    assert vodpress.json("asset", "delete", one["asset"]) == {"asset": one["asset"], "deleted": True}
    assert vodpress.objects(f"videos/{one['asset']}/") == {}
    assert [row["asset"] for row in vodpress.json("asset", "list")] == [two["asset"]]
    assert len(vodpress.objects("sources/")) == 1, "the other asset needs the source"
    assert vodpress.run(*command, "two").document["reused"]
    assert vodpress.json("events", "list", "--asset", one["asset"])[-1]["type"] == "video.asset.deleted"

    plain = vodpress.run("asset", "delete", two["asset"][:8], "--yes")
    assert (plain.status, plain.stdout) == (0, f"Asset {two['asset']} is deleted.\n")
    assert vodpress.objects() == {}
    again = vodpress.run(*command, "two").document
    assert (again["state"], again["reused"]) == ("ready", False)
    assert again["asset"] != two["asset"]


def test_migrate(vodpress: Vodpress) -> None:
    with vodpress.start("migrate", "--json") as one, vodpress.start("migrate", "--json") as two:
        ended = [one.end(), two.end()]
    assert [each.status for each in ended] == [0, 0], ended
    applied = [each.document["applied"] for each in ended]
    assert sorted(map(bool, applied)) == [False, True], "one did it, the other found it done"
    assert max(applied) == sorted(max(applied))
    assert vodpress.json("migrate") == {"applied": []}
    assert vodpress.run("migrate").stdout == "The database is up to date.\n"


def test_doctor_finds_nothing_wrong(vodpress: Vodpress) -> None:
    checks = vodpress.json("doctor")
    assert [check["check"] for check in checks] == [
        "ffmpeg",
        "ffprobe",
        "packager",
        "disk",
        "database",
        "storage",
        "nodes",
    ]
    assert all(check["ok"] for check in checks)
    assert vodpress.objects() == {}
    plain = vodpress.run("doctor")
    assert (plain.status, plain.stdout.count("ok  ")) == (0, 7)


def test_doctor_finds_what_is_wrong_and_says_what_to_do(vodpress: Vodpress) -> None:
    ended = vodpress.run(
        "doctor", "--json", ffmpeg="/nonexistent", disk_reserve_bytes=10**18, storage_url="/dev/null/x"
    )
    assert ended.status == 5
    wrong = {check["check"]: check for check in ended.document if not check["ok"]}
    assert wrong.keys() == {"ffmpeg", "disk", "storage"}
    assert all(check["found"] and check["remedy"] for check in wrong.values())
    plain = vodpress.run("doctor", ffmpeg="/nonexistent")
    assert plain.status == 5
    assert "FAIL  ffmpeg" in plain.stdout
    assert "What to do: Install imageio-ffmpeg again" in plain.stdout


def test_every_json_is_one_document_on_one_line(known: tuple[Vodpress, Any]) -> None:
    vodpress, documents = known
    asset = documents[0]["asset"]
    commands = (
        "asset list",
        f"asset show {asset}",
        f"asset why {asset}",
        "events list",
        "queue list",
        "migrate",
        "doctor",
    )
    for command in commands:
        ended = vodpress.run(*command.split(), "--json", log_level="debug")
        assert ended.status == 0
        assert ended.stdout.count("\n") == 1
        json.loads(ended.stdout)
