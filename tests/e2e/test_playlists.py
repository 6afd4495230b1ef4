"""The HLS presentation as others read it: a strict parser of playlists, and FFmpeg."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import HERE, Package

pytestmark = pytest.mark.xdist_group("e2e")

EXTINF_ERROR_SECONDS = 0.0005  # the packager writes three decimals
NODE_SECONDS = 60

ReadPlaylists = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def parse(require: Callable[..., Any], players: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run hls-parser over files; it fails on the first that is against the rules."""
    del players  # it lies beside them
    node = require("node", "Install Node.js 18 or newer.")

    def run(*paths: Path) -> subprocess.CompletedProcess[str]:
        command = [node, HERE / "playlists.mjs", *paths]
        return subprocess.run(command, capture_output=True, text=True, timeout=NODE_SECONDS, check=False)

    return run


@pytest.fixture(scope="session")
def read(parse: Callable[..., subprocess.CompletedProcess[str]]) -> ReadPlaylists:
    """The playlists in files, as hls-parser sees them."""

    def run(*paths: Path) -> list[dict[str, Any]]:
        ended = parse(*paths)
        assert ended.returncode == 0, ended.stderr
        found: list[dict[str, Any]] = json.loads(ended.stdout)
        return found

    return run


def hls(package: Package) -> Path:
    master: Path = package.folder / package.manifest["playback"]["hls"]
    return master


def test_the_parser_is_strict(
    package: Package, parse: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    text = (hls(package).parent / "720p.m3u8").read_text()
    for wrong in (
        re.sub(r"(?<=#EXT-X-TARGETDURATION:)\d+", "5", text),
        re.sub(r"(?<=#EXT-X-VERSION:)\d+", "3", text),
        text.replace("#EXTM3U\n", ""),
    ):
        assert wrong != text
        (tmp_path / "wrong.m3u8").write_text(wrong)
        assert parse(tmp_path / "wrong.m3u8").returncode != 0


def test_master_names_every_rendition(package: Package, read: ReadPlaylists) -> None:
    (master,) = read(hls(package))
    assert master["isMasterPlaylist"]
    assert master["independentSegments"]
    renditions = {(entry["width"], entry["height"]): entry for entry in package.manifest["renditions"]}
    audio = package.manifest["audio"][0]
    for only_keyframes in (False, True):
        variants = [entry for entry in master["variants"] if bool(entry["isIFrameOnly"]) is only_keyframes]
        assert {(entry["resolution"]["width"], entry["resolution"]["height"]) for entry in variants} == set(renditions)
        for entry in variants:
            rendition = renditions[entry["resolution"]["width"], entry["resolution"]["height"]]
            wanted = rendition["codecs"] if only_keyframes else f"{rendition['codecs']},{audio['codecs']}"
            assert entry["codecs"] == wanted
            assert 0 < entry["averageBandwidth"] <= entry["bandwidth"]
            assert (hls(package).parent / entry["uri"]).is_file()
            if not only_keyframes:
                assert entry["frameRate"] == pytest.approx(float(Fraction(rendition["frame_rate"])), abs=0.001)
                assert [(group["uri"], group["isDefault"]) for group in entry["audio"]] == [("audio.m3u8", True)]


def test_media_playlists_name_whole_files_and_the_whole_time(package: Package, read: ReadPlaylists) -> None:
    names = [entry["name"] for entry in (*package.manifest["renditions"], *package.manifest["audio"])]
    paths = [hls(package).parent / f"{name}.m3u8" for name in names]
    for path, playlist in zip(paths, read(*paths), strict=True):
        assert playlist["playlistType"] == "VOD"
        assert playlist["endlist"]
        segments = playlist["segments"]
        assert max(round(segment["duration"]) for segment in segments) <= playlist["targetDuration"]
        total = sum(segment["duration"] for segment in segments)
        assert abs(total - package.duration_seconds) <= len(segments) * EXTINF_ERROR_SECONDS
        for segment in segments:
            assert (path.parent / segment["uri"]).stat().st_size > 0
            assert (path.parent / segment["map"]["uri"]).stat().st_size > 0


def test_keyframe_playlists_name_whole_keyframes(
    package: Package, read: ReadPlaylists, ffprobe: str, tmp_path: Path
) -> None:
    paths = [hls(package).parent / f"{entry['name']}-iframes.m3u8" for entry in package.manifest["renditions"]]
    for path, playlist in zip(paths, read(*paths), strict=True):
        assert playlist["isIFrame"]
        at = 0.0
        for segment in playlist["segments"]:
            whole = (path.parent / segment["uri"]).read_bytes()
            first, length = segment["byterange"]["offset"], segment["byterange"]["length"]
            assert 0 < length <= len(whole) - first
            alone = tmp_path / "keyframe.mp4"
            alone.write_bytes((path.parent / segment["map"]["uri"]).read_bytes() + whole[first : first + length])
            (frame,) = frames(ffprobe, alone)
            assert frame["key_frame"] == 1
            assert float(frame["pts_time"]) == pytest.approx(at, abs=0.01)
            at += segment["duration"]
        assert at == pytest.approx(package.duration_seconds, abs=0.01)


def frames(ffprobe: str, path: Path) -> list[dict[str, Any]]:
    """Every frame that can be decoded of a file that ends where its first frame does."""
    command = [ffprobe, "-v", "fatal", "-show_entries", "frame=key_frame,pict_type,pts_time", "-of", "json", str(path)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(ended.stdout)["frames"]
    return found


def test_ffmpeg_reads_every_rendition_from_the_master(package: Package, ffprobe: str) -> None:
    ended = subprocess.run(
        [
            ffprobe, "-v", "error", "-protocol_whitelist", "file", "-count_frames", "-of", "json",
            "-show_entries", "stream=codec_type,codec_name,width,height,start_time,nb_read_frames:format=duration",
            f"file:{hls(package)}",
        ],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.stderr == ""
    found = json.loads(ended.stdout)
    assert float(found["format"]["duration"]) == pytest.approx(package.duration_seconds, abs=package.frame_seconds)
    assert {float(stream["start_time"]) for stream in found["streams"]} == {0.0}
    pictures = {
        (stream["width"], stream["height"]): int(stream["nb_read_frames"])
        for stream in found["streams"]
        if stream["codec_type"] == "video"
    }
    assert pictures == {(entry["width"], entry["height"]): entry["frames"] for entry in package.manifest["renditions"]}
    (sound,) = [stream for stream in found["streams"] if stream["codec_type"] == "audio"]
    assert abs(int(sound["nb_read_frames"]) * 1024 / 48_000 - package.duration_seconds) <= package.frame_seconds


def test_hls_and_dash_give_the_same_pictures_and_sound(package: Package, ffmpeg: str) -> None:
    playback = package.manifest["playback"]
    by_hls = decode(ffmpeg, package.folder / playback["hls"])
    by_dash = decode(ffmpeg, package.folder / playback["dash"])
    assert by_hls == by_dash
    assert len(by_hls) == len(package.manifest["renditions"]) + 1
    for frames in by_hls:
        (length,) = {length for _, length, _ in frames[:-1]}
        assert [time for time, _, _ in frames] == [number * length for number in range(len(frames))]


def decode(ffmpeg: str, path: Path) -> list[list[tuple[int, int, str]]]:
    """Time and length in ticks, and checksum, of every frame of every stream, decoded; video before audio."""
    command = [
        ffmpeg, "-nostdin", "-v", "error", "-xerror", "-copyts", "-protocol_whitelist", "file",
        "-i", f"file:{path}", "-map", "0:v", "-map", "0:a", "-fps_mode", "passthrough", "-f", "framemd5", "-",
    ]  # fmt: skip
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert ended.stderr == ""
    streams: dict[int, list[tuple[int, int, str]]] = {}
    for line in ended.stdout.splitlines():
        if not line.startswith("#"):
            stream, _, time, length, _, checksum = (cell.strip() for cell in line.split(","))
            streams.setdefault(int(stream), []).append((int(time), int(length), checksum))
    return [streams[number] for number in sorted(streams)]
