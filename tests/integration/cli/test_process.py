"""`vodpress process`: what it prints, what it writes, and with which status it ends."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.conftest import temporary_home
from tests.integration.cli.conftest import RUNGS, StandIn
from tests.integration.cli.console import SCRIPT, Ended, Vodpress

from vodpress.adapters.db.embedded import EmbeddedPostgres

KEYS = [
    "file", "asset", "state", "exit_code", "reason", "manifest", "duration_seconds", "renditions", "cpu_seconds",
    "wall_seconds", "reused",
]  # fmt: skip


@dataclass(frozen=True)
class Processed:
    """One clip that was processed, and how."""

    ended: Ended
    vodpress: Vodpress
    clip: Path

    @property
    def folder(self) -> Path:
        """The folder that came out."""
        return Path(self.ended.document["manifest"]).parent

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest in it."""
        found: dict[str, Any] = json.loads((self.folder / "manifest.json").read_bytes())
        return found


@pytest.fixture(scope="module")
def processed(clip: Path, ladder_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processed]:
    """The clip in DIR `out`, named relative to the working folder, with every line that could be logged."""
    folder = tmp_path_factory.mktemp("processed")
    with temporary_home() as home, EmbeddedPostgres(home):  # kept running, which is quicker
        vodpress = Vodpress(home, log_level="debug", log_format="json")
        options: list[str | Path] = ["--ladder", ladder_file, "--passthrough", "lesson 7", "--json"]
        ended = vodpress.run("process", clip, "--out", "out", *options, cwd=folder)
        yield Processed(ended, vodpress, clip)


def test_json_is_one_object_with_exactly_the_promised_keys(processed: Processed) -> None:
    assert processed.ended.status == 0, processed.ended
    assert len(processed.ended.stdout.splitlines()) == 1
    document = processed.ended.document
    assert list(document) == KEYS
    assert document["file"] == str(processed.clip)
    assert (document["state"], document["exit_code"], document["reason"]) == ("ready", 0, None)
    assert document["duration_seconds"] == 6
    assert document["renditions"] == [
        {"name": "180p", "width": 320, "height": 180, "state": "completed"},
        {"name": "90p", "width": 160, "height": 90, "state": "completed"},
        {"name": "audio", "width": None, "height": None, "state": "completed"},
    ]
    assert document["cpu_seconds"] > 0
    assert document["wall_seconds"] > 0
    assert document["reused"] is False


def test_logs_go_to_standard_error_only(processed: Processed) -> None:
    logged = [json.loads(line) for line in processed.ended.stderr.splitlines()]
    assert {"debug"} <= {line["level"] for line in logged}
    tools = [line for line in logged if line["event"] == "tool ended"]
    assert {"ffmpeg", "ffprobe", "packager"} <= {line["tool"] for line in tools}


def test_the_manifest_is_named_absolutely_and_in_a_folder_of_the_files_stem(processed: Processed) -> None:
    named = Path(processed.ended.document["manifest"])
    assert named.is_absolute()
    assert named.parts[-3:] == ("out", "clip", "manifest.json")
    assert [path.name for path in named.parent.parent.iterdir()] == ["clip"]


def test_the_manifest_is_valid_by_its_published_schema(processed: Processed) -> None:
    schema = json.loads(resources.files("vodpress").joinpath("schemas/manifest-1.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(processed.manifest)


def test_the_manifest_says_what_was_made_of_what(processed: Processed) -> None:
    manifest, document = processed.manifest, processed.ended.document
    data = processed.clip.read_bytes()
    assert manifest["schema"] == "vodpress.manifest/1"
    assert manifest["asset"] == document["asset"]
    assert manifest["source"]["sha256"] == hashlib.sha256(data).hexdigest()
    assert manifest["source"]["bytes"] == len(data)
    assert (manifest["source"]["width"], manifest["source"]["height"]) == (320, 180)
    assert manifest["duration_seconds"] == document["duration_seconds"]
    assert [(rung["name"], rung["frames"]) for rung in manifest["renditions"]] == [(name, 150) for name in RUNGS]
    assert [audio["name"] for audio in manifest["audio"]] == ["audio"]


def test_every_file_is_listed_with_its_checksum_and_nothing_else_is_there(processed: Processed) -> None:
    manifest = processed.manifest
    groups = [*manifest["renditions"], *manifest["audio"], manifest["images"], manifest["playback"]]
    listed = {file["path"]: (file["bytes"], file["sha256"]) for group in groups for file in group["files"]}
    there = {
        path.relative_to(processed.folder).as_posix(): path.read_bytes()
        for path in processed.folder.rglob("*")
        if path.is_file()
    }
    del there["manifest.json"]
    assert listed == {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in there.items()}
    assert {"hls/master.m3u8", "dash/manifest.mpd", "poster.jpg", "storyboard.vtt"} <= there.keys()
    assert manifest["playback"]["hls"] == "hls/master.m3u8"
    assert manifest["playback"]["dash"] == "dash/manifest.mpd"


def test_the_result_may_be_read_as_any_new_folder_may(processed: Processed, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    (fresh / "file").touch()
    folders = {path.stat().st_mode for path in [processed.folder, *processed.folder.rglob("*")] if path.is_dir()}
    assert folders == {fresh.stat().st_mode}
    files = {path.stat().st_mode for path in processed.folder.rglob("*") if path.is_file()}
    assert files == {(fresh / "file").stat().st_mode}


def test_every_fact_is_an_event(processed: Processed) -> None:
    asset = processed.ended.document["asset"]
    events = processed.vodpress.json("events", "list", "--asset", asset)
    types = [event["type"] for event in events]
    assert types[:2] == ["video.upload.completed", "video.asset.processing"]
    assert types.count("video.rendition.completed") == 3
    assert types.count("video.asset.ready") == 1
    assert types[types.index("video.asset.ready") - 1] == "video.manifest.published"
    assert events[0]["data"]["passthrough"] == "lesson 7"


def test_without_json_it_prints_lines(vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path) -> None:
    ended = vodpress.run("process", clip, "--out", out, "--ladder", ladder_file)
    assert ended.status == 0, ended
    said, manifest = ended.stdout.splitlines()
    assert said.startswith(f"{clip}: ready (180p, 90p, audio; ")
    assert manifest.strip() == str(out / "clip" / "manifest.json")
    told = [line.removeprefix("clip.mp4: ") for line in ended.stderr.splitlines() if line.startswith("clip.mp4: ")]
    assert told[0] == "reading the file"
    assert told[-1] == "done"
    assert "\x1b" not in ended.stderr, "no control sequences where there is no terminal"


def test_a_terminal_gets_a_bar_a_rendition_with_speed_and_time_left(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn
) -> None:
    real_time = replace_ffmpeg('exec "$REAL" -readrate 1 "$@"')
    ours, theirs = pty.openpty()
    try:
        command = ("process", clip, "--out", out, "--ladder", ladder_file, "--json")
        with vodpress.start(*command, stderr=theirs, ffmpeg=real_time, encode_jobs=1) as running:
            os.close(theirs)
            shown = read_terminal(ours)
            ended = running.end()
    finally:
        os.close(ours)
    assert ended.status == 0, ended
    assert ended.document["state"] == "ready"
    words = (
        "clip.mp4",
        "  180p",
        "320×180 encoding",
        "  90p",
        "160×90 encoding",
        "  audio",
        " %",
        "× real time",
        " left",
    )
    assert [word for word in words if word not in shown] == []


def read_terminal(descriptor: int) -> str:
    """What is shown until the other side is closed."""
    shown = bytearray()
    while True:
        try:
            block = os.read(descriptor, 65536)
        except OSError:  # EIO: nobody has the other side open any more
            break
        if not block:
            break
        shown += block
    return shown.decode()


def test_one_bad_file_stops_no_other(
    vodpress: Vodpress, clip: Path, other_clip: Path, ladder_file: Path, out: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("This is no video.\n")
    files = [text, clip, tmp_path / "missing.mp4", other_clip]
    ended = vodpress.run("process", *files, "--out", out, "--ladder", ladder_file, "--json")
    assert [document["file"] for document in ended.documents] == [str(path) for path in files]
    assert [document["exit_code"] for document in ended.documents] == [6, 0, 2, 0]
    codes = [document["reason"] and document["reason"]["code"] for document in ended.documents]
    assert codes == ["source_unreadable", None, "file_not_found", None]
    assert ended.status == 2, "the gravest of them"
    assert sorted(path.name for path in out.iterdir()) == ["clip", "other"]
    assert ended.documents[3]["renditions"][-1]["name"] == "90p", "a source without sound has no audio rendition"

    without = vodpress.run("process", text, clip, "--out", out, "--ladder", ladder_file)
    assert without.status == 6
    assert "source_unreadable" in without.stdout


def test_folders_get_names_that_are_free(
    vodpress: Vodpress, clip: Path, other_clip: Path, ladder_file: Path, out: Path, tmp_path: Path
) -> None:
    (out / "clip").mkdir(parents=True)
    (out / "clip" / "mine").touch()
    (out / "clip-2").touch()
    namesake = tmp_path / "clip.mp4"
    namesake.write_bytes(other_clip.read_bytes())
    ended = vodpress.run("process", clip, clip, namesake, "--out", out, "--ladder", ladder_file, "--json")
    assert ended.status == 0, ended
    made = [Path(document["manifest"]) for document in ended.documents]
    assert {path.parent.name for path in made} == {"clip-3", "clip-4", "clip-5"}
    sources = [json.loads(path.read_bytes())["source"]["sha256"] for path in made]
    assert sources[0] == sources[1] != sources[2]
    assert [path.name for path in (out / "clip").iterdir()] == ["mine"]
    assert (out / "clip-2").is_file()
    assert ended.documents[0]["asset"] == ended.documents[1]["asset"]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        (b"Stra\xc3\x9fe \xe2\x80\xae4pm.mp4", "Straße \u202e4pm"),
        (b"caf\xe9.mp4", "caf\ufffd"),
        (b"a\nb\x1b[31m.mp4", "a_b_[31m"),
        (b"..mp4", "video"),
        (b"-n.mp4", "-n"),
        (b"x" * 240 + b".mp4", "x" * 200),
    ],
    ids=["unicode", "no-utf8", "controls", "dots", "dash", "long"],
)
def test_names_of_files_are_text_of_strangers(
    name: bytes, folder: str, processed: Processed, ladder_file: Path, out: Path, tmp_path: Path
) -> None:
    file = tmp_path / os.fsdecode(name)
    os.link(processed.clip, file)
    options: list[str | Path] = ["--out", out, "--ladder", ladder_file, "--passthrough", "lesson 7"]
    # Settings of its own: the terminal of this call knows ASCII only.
    ended = Vodpress(processed.vodpress.home).run("process", *options, "--json", "--", file)
    assert ended.status == 0, ended
    assert ended.document["file"] == str(file)
    assert ended.document["reused"]
    assert [path.name for path in out.iterdir()] == [folder]
    lines = Vodpress(processed.vodpress.home).run("process", *options, "--", file)
    assert lines.status == 0, lines
    assert len(lines.stdout.splitlines()) == 2
    assert "\x1b" not in lines.stdout + lines.stderr


def test_a_terminal_that_knows_few_letters_ends_no_command(
    processed: Processed, ladder_file: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    file = tmp_path / "Straße.mp4"
    os.link(processed.clip, file)
    command = ("process", file, "--out", out, "--ladder", ladder_file, "--passthrough", "lesson 7")
    vodpress = Vodpress(processed.vodpress.home)
    assert vodpress.run(*command).status == 0
    assert vodpress.run(*command, "--json").document["file"] == str(file)


def test_a_passthrough_must_be_text(processed: Processed, out: Path) -> None:
    ended = processed.vodpress.run("process", processed.clip, "--out", out, "--passthrough", os.fsdecode(b"\xe9"))
    assert ended.status == 2
    assert "--passthrough" in ended.stderr
    assert not out.exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_no_status(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, closed: str
) -> None:
    command = [SCRIPT, "process", clip, "--out", out, "--ladder", ladder_file, "--json"]
    shell = ["/bin/sh", "-c", f'"$@" {closed}', "sh", *map(str, command)]
    ended = subprocess.run(shell, env=vodpress.environment(), capture_output=True, timeout=120, check=False)
    assert ended.returncode == 0, ended
    assert b"Traceback" not in ended.stdout + ended.stderr
    assert (out / "clip" / "manifest.json").exists()


def test_a_full_disk_behind_standard_output_is_no_traceback(vodpress: Vodpress) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [SCRIPT, "asset", "list"], env=vodpress.environment(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 5
    assert b"No space left on device" in ended.stderr
    assert b"Traceback" not in ended.stderr
