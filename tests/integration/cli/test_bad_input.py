"""Bad input gets an exit status, a stable code and a sentence, and leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import temporary_home
from tests.integration.cli.console import Vodpress
from tests.integration.conftest import FFmpeg

from vodpress.adapters.db.embedded import EmbeddedPostgres

# Settings that the kernel takes and never gives back: nobody may read them, not even root.
WRITE_ONLY = [Path("/proc/sys/vm/compact_memory"), Path("/proc/sys/net/ipv4/route/flush")]


@pytest.fixture(scope="module")
def shared() -> Iterator[Vodpress]:
    """The command over a home that only ever sees bad input."""
    with temporary_home() as home, EmbeddedPostgres(home):  # kept running, which is quicker
        yield Vodpress(home)


@pytest.fixture(scope="module")
def bad_files(make: FFmpeg, clip: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file a defect."""
    folder = tmp_path_factory.mktemp("bad")
    files = {name: folder / f"{name}.mp4" for name in ("missing", "directory", "empty", "text", "sound", "cut", "tail")}
    files["directory"].mkdir()
    files["empty"].touch()
    files["text"].write_text("This is no video.\n" * 100)
    make("-f", "lavfi", "-i", "sine=f=440", "-t", 2, "-c:a", "aac", files["sound"])
    data = clip.read_bytes()
    files["cut"].write_bytes(data[: len(data) // 2])  # the index is at the front and tells of more
    late = folder / "late.mp4"
    make("-i", clip, "-c", "copy", late)
    data = late.read_bytes()
    files["tail"].write_bytes(data[: len(data) // 2])  # the index was at the end
    fifo = folder / "pipe.mp4"
    os.mkfifo(fifo)
    return {**files, "pipe": fifo}


def refused(vodpress: Vodpress, *arguments: str | Path, **settings: Any) -> tuple[int, str, str]:
    """Exit status, code and sentence of a run with one file that must fail; told alike as JSON and in plain words."""
    ended = vodpress.run("process", *arguments, "--json", **settings)
    document = ended.document
    assert ended.status == document["exit_code"], ended
    assert document["manifest"] is None
    assert "Traceback" not in ended.stderr
    reason = document["reason"]
    assert len(reason["message"].split()) > 3, reason
    plain = vodpress.run("process", *arguments, **settings)
    assert plain.status == ended.status
    assert f"({reason['code']})" in plain.stdout + plain.stderr
    assert "Traceback" not in plain.stderr
    return ended.status, reason["code"], reason["message"]


def assert_nothing_in(out: Path) -> None:
    assert not out.exists() or list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("missing", 2, "file_not_found"),
        ("directory", 2, "file_is_directory"),
        ("pipe", 2, "file_not_regular"),
        ("empty", 6, "source_empty"),
        ("text", 6, "source_unreadable"),
        ("sound", 6, "no_video_stream"),
        ("cut", 6, "source_truncated"),
        ("tail", 6, "source_truncated"),
    ],
)
def test_a_bad_file(
    kind: str, status: int, code: str, shared: Vodpress, bad_files: dict[str, Path], ladder_file: Path, out: Path
) -> None:
    found = refused(shared, bad_files[kind], "--out", out, "--ladder", ladder_file)
    assert found[:2] == (status, code)
    assert_nothing_in(out)
    assert shared.objects("videos/") == {}
    assert shared.objects("incoming/") == {}


def test_a_bad_file_is_told_of_again_when_it_comes_again(
    shared: Vodpress, bad_files: dict[str, Path], ladder_file: Path, out: Path
) -> None:
    command = ("process", bad_files["cut"], "--out", out, "--ladder", ladder_file, "--passthrough", "again", "--json")
    first, second = (shared.run(*command).document for _ in range(2))
    assert first["asset"] == second["asset"]
    assert first["state"] == second["state"] == "errored"
    assert first["reason"] == second["reason"]
    shown = shared.json("asset", "show", first["asset"])
    assert len(shown["dead_letters"]) == 1, "the first was resolved by the second try"


def test_a_file_that_may_not_be_read(
    shared: Vodpress, clip: Path, ladder_file: Path, out: Path, tmp_path: Path
) -> None:
    if os.geteuid() == 0:
        file = next((path for path in WRITE_ONLY if path.is_file() and not is_readable(path)), None)
        if file is None:
            pytest.skip("Root may read every file here.")
    else:
        file = tmp_path / "locked.mp4"
        file.write_bytes(clip.read_bytes())
        file.chmod(0)
    status, code, _ = refused(shared, file, "--out", out, "--ladder", ladder_file)
    assert (status, code) == (2, "file_unreadable")
    assert_nothing_in(out)


def is_readable(path: Path) -> bool:
    try:
        path.open("rb").close()
    except PermissionError:
        return False
    return True


def test_an_output_folder_below_a_file(shared: Vodpress, clip: Path, ladder_file: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "out"):
        status, code, message = refused(shared, clip, "--out", out, "--ladder", ladder_file)
        assert (status, code) == (2, "output_unwritable")
        assert str(out) in message
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.parametrize(
    ("name", "hint"), [("defualt", "did you mean 'default'?"), ("nothing-like-it", "known ladders: default")]
)
def test_an_unknown_ladder(name: str, hint: str, shared: Vodpress, clip: Path, out: Path) -> None:
    status, code, message = refused(shared, clip, "--out", out, "--ladder", name)
    assert (status, code) == (2, "unknown_ladder")
    assert hint in message
    assert_nothing_in(out)


def test_a_ladder_file_that_is_not_there(shared: Vodpress, clip: Path, out: Path, tmp_path: Path) -> None:
    status, code, _ = refused(shared, clip, "--out", out, "--ladder", tmp_path / "none.toml")
    assert (status, code) == (2, "unknown_ladder")


@pytest.mark.parametrize(
    ("right", "wrong", "hint"),
    [
        ("gop_seconds", "gop_second", "unknown key 'gop_second'; did you mean 'gop_seconds'?"),
        ("crf", "cfr", "unknown key 'rungs[0].cfr'; did you mean 'crf'?"),
        ("maxrate_kbps = 500", "maxrate_kbps = 0", "rungs[0].maxrate_kbps"),
        ("preset", "=", "no valid TOML"),
    ],
)
def test_a_ladder_file_with_a_fault(
    right: str, wrong: str, hint: str, shared: Vodpress, clip: Path, ladder_file: Path, out: Path, tmp_path: Path
) -> None:
    spoilt = tmp_path / "spoilt.toml"
    spoilt.write_text(ladder_file.read_text().replace(right, wrong, 1))
    ended = shared.run("process", clip, "--out", out, "--ladder", spoilt, "--json")
    assert ended.status == 2
    assert ended.document["reason"]["code"] == "invalid_ladder"
    assert hint in ended.document["reason"]["message"]
    assert_nothing_in(out)


def test_too_little_disk_is_found_before_anything_starts(
    shared: Vodpress, clip: Path, ladder_file: Path, out: Path
) -> None:
    before = shared.objects()
    status, code, message = refused(shared, clip, "--out", out, "--ladder", ladder_file, disk_reserve_bytes=10**18)
    assert (status, code) == (7, "disk_reserve_short")
    assert "1000000000.00 GB in reserve" in message
    assert_nothing_in(out)
    assert shared.objects() == before


@pytest.mark.parametrize("tool", ["ffmpeg", "ffprobe", "packager"])
def test_a_missing_tool(tool: str, shared: Vodpress, clip: Path, ladder_file: Path, out: Path) -> None:
    status, code, message = refused(shared, clip, "--out", out, "--ladder", ladder_file, **{tool: "/nonexistent"})
    assert (status, code) == (5, "tool_missing")
    assert tool in message
    assert_nothing_in(out)


def test_a_program_that_is_no_ffmpeg(shared: Vodpress, clip: Path, ladder_file: Path, out: Path) -> None:
    status, code, _ = refused(shared, clip, "--out", out, "--ladder", ladder_file, ffmpeg="/bin/true")
    assert (status, code) == (5, "tool_missing")


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"encode_job": 1}, "invalid_settings"),
        ({"encode_jobs": "many"}, "invalid_settings"),
        ({"scratch_dir": "{file}/scratch"}, "home_unusable"),
        ({"storage_url": "ftp://host/"}, "invalid_storage_url"),
    ],
    ids=["misspelt", "no-number", "scratch-below-a-file", "storage"],
)
def test_a_setting_that_cannot_be_used(
    settings: dict[str, Any], code: str, shared: Vodpress, clip: Path, ladder_file: Path, out: Path
) -> None:
    chosen = {name: str(value).format(file=clip) for name, value in settings.items()}
    status, found, _ = refused(shared, clip, "--out", out, "--ladder", ladder_file, **chosen)
    assert (status, found) == (2, code)
    assert_nothing_in(out)


def test_a_refusal_is_told_of_every_file(shared: Vodpress, clip: Path, other_clip: Path, out: Path) -> None:
    ended = shared.run("process", clip, other_clip, "--out", out, "--ladder", "none", "--json")
    assert [document["file"] for document in ended.documents] == [str(clip), str(other_clip)]
    assert {document["state"] for document in ended.documents} == {"rejected"}


def test_wrong_usage_prints_nothing_on_standard_output(shared: Vodpress, clip: Path, out: Path) -> None:
    wrong: list[tuple[str | Path, ...]] = [("--out", out), (clip,), (clip, "--out", out, "--lader", "x")]
    for arguments in wrong:
        ended = shared.run("process", *arguments, "--json")
        assert (ended.status, ended.stdout) == (2, "")
        assert "Usage: vodpress process" in ended.stderr


def test_damage_in_the_middle_is_tried_three_times_and_then_waits_for_a_decision(
    vodpress: Vodpress, make: FFmpeg, ladder_file: Path, out: Path, tmp_path: Path
) -> None:
    source = tmp_path / "damaged.mp4"
    make(
        "-f", "lavfi", "-i", "testsrc2=s=320x180:r=25", "-t", 16,
        "-c:v", "libx264", "-preset", "ultrafast", "-g", 25, "-movflags", "+faststart", source,
    )  # fmt: skip
    data = bytearray(source.read_bytes())
    begin = len(data) * 3 // 10  # between the places that ingest samples
    data[begin : begin + 10_000] = bytes(number * 37 % 256 for number in range(10_000))
    source.write_bytes(data)
    ended = vodpress.run("process", source, "--out", out, "--ladder", ladder_file, "--json")
    assert ended.status == 6, ended
    assert ended.document["state"] == "processing"
    assert ended.document["reason"]["code"] == "source_corrupt"
    assert_nothing_in(out)
    shown = vodpress.json("asset", "show", ended.document["asset"])
    assert shown["blocked"]
    assert {(letter["job_kind"], letter["attempts"]) for letter in shown["dead_letters"]} == {("encode", 3)}
    assert [rendition["reason"] for rendition in shown["plans"][0]["renditions"]] == ["source_corrupt"] * 2
    states = [part["state"] for part in vodpress.slices().values()]
    assert "completed" in states, "what could be encoded is kept"
