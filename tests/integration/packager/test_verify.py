"""A package that was damaged in any way, or made from a rendition that is not the plan's, is refused."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.packager.conftest import Inputs, Packaged, encode

from vodpress.adapters.packager.packager import ShakaPackager
from vodpress.adapters.packager.verify import verify_package
from vodpress.domain.failure import Failure, FailureKind
from vodpress.domain.plan import Plan
from vodpress.ports import TrackInput

SECOND = "media/360p/2.m4s"


def refused(made: Packaged) -> str:
    """Why the package is refused."""
    with pytest.raises(Failure) as caught:
        verify_package(made.tracks, made.plan, made.folder)
    assert caught.value.code == "output_unverified"
    assert caught.value.kind is FailureKind.INFRASTRUCTURE
    return caught.value.detail


def replace(path: Path, pattern: str, replacement: str) -> None:
    text = path.read_text()
    changed = re.sub(pattern, replacement, text, count=1, flags=re.MULTILINE)
    assert changed != text
    path.write_text(changed)


def overwrite(path: Path, box: bytes, offset: int, value: bytes) -> None:
    """Change bytes behind the name of the first box of that name."""
    data = bytearray(path.read_bytes())
    at = data.index(box) + 4 + offset
    assert data[at : at + len(value)] != value
    data[at : at + len(value)] = value
    path.write_bytes(data)


def test_a_package_that_nobody_touched_is_accepted(own_copy: Packaged) -> None:
    assert verify_package(own_copy.tracks, own_copy.plan, own_copy.folder) == own_copy.result


@pytest.mark.parametrize(
    "path",
    [
        SECOND,
        "media/360p/4.m4s",
        "media/audio/1.m4s",
        "media/240p/init.mp4",
        "hls/144p.m3u8",
        "hls/144p-iframes.m3u8",
        "hls/audio.m3u8",
        "hls/master.m3u8",
        "dash/manifest.mpd",
    ],
)
@pytest.mark.parametrize("damage", ["deleted", "emptied", "halved", "one byte short", "garbage"])
def test_a_file_that_is_not_whole(own_copy: Packaged, path: str, damage: str) -> None:
    file = own_copy.folder / path
    whole = file.read_bytes()
    if damage == "deleted":
        file.unlink()
    elif damage == "one byte short":
        file.write_bytes(whole.rstrip()[:-1])
    else:
        file.write_bytes({"emptied": b"", "halved": whole[: len(whole) // 2], "garbage": b"\xff\x00" * 500}[damage])
    assert Path(path).name in refused(own_copy)


@pytest.mark.parametrize("extra", ["media/360p/5.m4s", "hls/.hidden", "notes.txt"])
def test_a_file_that_nothing_names(own_copy: Packaged, extra: str) -> None:
    (own_copy.folder / extra).write_bytes(b"")
    assert extra in refused(own_copy)


def test_a_link_to_nowhere(own_copy: Packaged) -> None:
    (own_copy.folder / "media/link").symlink_to("nowhere")
    assert "media/link" in refused(own_copy)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SECOND, "media/360p/3.m4s"),
        ("media/audio/2.m4s", "media/audio/3.m4s"),
        (SECOND, "media/240p/2.m4s"),  # of the same time, in another size
        (SECOND, "media/audio/2.m4s"),
    ],
)
def test_two_segments_in_each_others_place(own_copy: Packaged, one: str, other: str) -> None:
    paths = own_copy.folder / one, own_copy.folder / other
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)
    refused(own_copy)


def test_a_frame_less_in_a_segment(own_copy: Packaged) -> None:
    plan = own_copy.plan
    second = plan.segment_frames + plan.gop_frames  # of the segment's fragments
    overwrite(own_copy.folder / SECOND, b"trun", 4, struct.pack(">I", plan.gop_frames - 1))
    assert f"{SECOND}: a fragment at {second * 512} where {(second - 1) * 512} follows" in refused(own_copy)


def test_a_frame_less_at_the_end(own_copy: Packaged) -> None:
    (_, *_, last), left = own_copy.result.tracks[0].files[1:-1], own_copy.plan.frames % own_copy.plan.segment_frames
    overwrite(own_copy.folder / last, b"trun", 4, struct.pack(">I", left - 1))
    assert f"expected {left} frames" in refused(own_copy)


def test_an_audio_frame_less(own_copy: Packaged) -> None:
    path = own_copy.folder / "media/audio/2.m4s"
    count = struct.unpack_from(">I", path.read_bytes(), path.read_bytes().index(b"trun") + 8)[0]
    overwrite(path, b"trun", 4, struct.pack(">I", count - 1))
    refused(own_copy)


def test_no_frame_at_all(own_copy: Packaged) -> None:
    overwrite(own_copy.folder / SECOND, b"trun", 4, struct.pack(">I", 0))
    assert "a fragment without samples" in refused(own_copy)


@pytest.mark.parametrize("path", [SECOND, "media/audio/2.m4s"])
def test_a_segment_at_another_time(own_copy: Packaged, path: str) -> None:
    file = own_copy.folder / path
    (at,) = struct.unpack_from(">I", file.read_bytes(), file.read_bytes().index(b"tfdt") + 8)
    overwrite(file, b"tfdt", 4, struct.pack(">I", at + 1))
    assert f"{path}: a fragment at" in refused(own_copy)


def test_a_segment_without_a_keyframe_at_its_start(own_copy: Packaged) -> None:
    file = own_copy.folder / SECOND
    data = file.read_bytes()
    run = data.index(b"trun") + 4
    flags, first_flags = data[run + 1 : run + 4], run + 12 + 8  # behind the data offset: duration or size, size, flags
    assert flags == b"\x00\x0e\x01"  # data offset; per sample: size, flags, composition offset
    overwrite(file, b"trun", first_flags - run - 4, struct.pack(">I", 0x10000))
    assert f"{SECOND}: expected a fragment with a keyframe" in refused(own_copy)


@pytest.mark.parametrize(
    ("path", "pattern", "replacement", "reason"),
    [
        ("hls/360p.m3u8", "#EXT-X-ENDLIST", "", "ENDLIST"),
        ("hls/360p.m3u8", "#EXTINF:6.000", "#EXTINF:6.002", "6.0000"),
        ("hls/360p.m3u8", "#EXTINF:6.000", "#EXTINF:six", "hls/360p.m3u8"),
        ("hls/360p.m3u8", "#EXTINF:6.000,\n", "", "durations"),
        ("hls/360p.m3u8", "^../media/360p/2.m4s", "../media/360p/1.m4s", "the segments that the MPD names"),
        ("hls/360p.m3u8", "^../media/360p/2.m4s", "../../360p/2.m4s", "outside"),
        ("hls/360p.m3u8", "^../media/360p/2.m4s", "https://example.org/2.m4s", "not relative"),
        ("hls/360p.m3u8", "^../media/360p/2.m4s", "/media/360p/2.m4s", "not relative"),
        ("hls/360p.m3u8", "360p/init.mp4", "240p/init.mp4", "initialisation segment"),
        ("hls/360p.m3u8", 'URI="../media/360p/init.mp4"', "", "hls/360p.m3u8"),
        ("hls/360p-iframes.m3u8", "#EXT-X-BYTERANGE:(.)", r"#EXT-X-BYTERANGE:1\1", "keyframes"),
        ("hls/360p-iframes.m3u8", "@84", "@83", "keyframes"),
        ("hls/360p-iframes.m3u8", "^../media/360p/2.m4s", "../media/360p/3.m4s", "in their segments"),
        ("hls/360p-iframes.m3u8", "#EXTINF:2.000", "#EXTINF:1.900", "keyframe for"),
        ("hls/master.m3u8", "^240p.m3u8", "360p.m3u8", "the playlists"),
        ("hls/master.m3u8", 'URI="audio.m3u8"', 'URI="sound.m3u8"', "the playlists"),
        ("hls/master.m3u8", '^#EXT-X-I-FRAME-STREAM-INF.*"240p-iframes.m3u8"$', "", "the playlists"),
        ("dash/manifest.mpd", 'type="static"', 'type="dynamic"', "not static"),
        ("dash/manifest.mpd", 'mediaPresentationDuration="PT20S"', 'mediaPresentationDuration="PT20.1S"', "20.1"),
        ("dash/manifest.mpd", 'mediaPresentationDuration="PT20S"', "", "no duration"),
        ("dash/manifest.mpd", 'd="76800"', 'd="76801"', "dash/manifest.mpd"),
        ("dash/manifest.mpd", 'r="2"', 'r="1"', "the segments that the MPD names"),
        ("dash/manifest.mpd", 'bandwidth="4', 'bandwidth="3', "bandwidth"),
        ("dash/manifest.mpd", 'timescale="12800"', 'timescale="12801"', "ticks a second"),
        ("dash/manifest.mpd", 'timescale="12800"', 'timescale="0"', "without time"),
        ("dash/manifest.mpd", 'startNumber="1"', 'startNumber="2"', "the segments that the MPD names"),
        ("dash/manifest.mpd", r"<BaseURL>\.\./</BaseURL>", "", "initialisation segment"),
        ("dash/manifest.mpd", "media/240p/init.mp4", "media/144p/init.mp4", "initialisation segment"),
    ],
)
def test_a_playlist_that_says_something_else(
    own_copy: Packaged, path: str, pattern: str, replacement: str, reason: str
) -> None:
    replace(own_copy.folder / path, pattern, replacement)
    assert reason in refused(own_copy)


async def refused_inputs(packager: ShakaPackager, tracks: tuple[TrackInput, ...], plan: Plan, folder: Path) -> str:
    folder.mkdir()
    with pytest.raises(Failure) as caught:
        await packager.package(tracks, plan, folder)
    assert caught.value.code == "output_unverified"
    return caught.value.detail


@pytest.mark.parametrize(
    ("change", "picture"),
    [
        ({}, "select='not(eq(n,130))'"),
        ({"frames": -1}, "null"),
        ({"frames": +1}, "null"),
        ({"gop_frames": +10}, "null"),
    ],
    ids=["a frame missing in the middle", "a frame fewer", "a frame more", "keyframes elsewhere"],
)
async def test_a_rendition_that_is_not_the_plans(
    change: dict[str, int],
    picture: str,
    make: Callable[..., None],
    inputs: Callable[[str, str], Inputs],
    packager: ShakaPackager,
    tmp_path: Path,
) -> None:
    given = inputs("25", "fragmented")
    other = given.plan.model_copy(update={key: getattr(given.plan, key) + by for key, by in change.items()})
    only = other.model_copy(update={"rungs": other.rungs[1:2], "audio": None})
    spoilt = encode(make, only, tmp_path, shape="fragmented", picture=picture)
    tracks = (given.tracks[0], *spoilt, *given.tracks[2:])
    assert "240p" in await refused_inputs(packager, tracks, given.plan, tmp_path / "package")


@pytest.mark.parametrize("seconds", [-0.5, +0.5])
async def test_sound_of_another_length(
    seconds: float,
    make: Callable[..., None],
    inputs: Callable[[str, str], Inputs],
    packager: ShakaPackager,
    tmp_path: Path,
) -> None:
    given = inputs("25", "fragmented")
    frames = given.plan.frames + round(seconds * given.plan.frame_rate)
    other = given.plan.model_copy(update={"rungs": (), "frames": frames})
    (sound,) = encode(make, other, tmp_path, shape="fragmented")
    detail = await refused_inputs(packager, (*given.tracks[:-1], sound), given.plan, tmp_path / "package")
    assert "20.0000 s" in detail


async def test_a_rendition_cut_short(
    inputs: Callable[[str, str], Inputs], packager: ShakaPackager, tmp_path: Path
) -> None:
    given = inputs("25", "fragmented")
    whole = given.tracks[0].path.read_bytes()
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(whole[: len(whole) * 3 // 4])
    tracks = (TrackInput(name="360p", path=cut, rung=given.tracks[0].rung, audio=None), *given.tracks[1:])
    await refused_inputs(packager, tracks, given.plan, tmp_path / "package")
