"""Real renditions through the real packager: the layout, the timeline, and what players are told."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.integration.packager.conftest import RATES, SHAPES, Inputs, Packaged, encode, plan_for

from vodpress.adapters.packager.binary import find_packager
from vodpress.adapters.packager.packager import ShakaPackager
from vodpress.adapters.programs import Binary
from vodpress.domain.failure import Failure
from vodpress.ports import TrackInput

SEGMENTS = 4  # of 6 s in 20 s
UNIX_EPOCH = 2_082_844_800  # in seconds since 1904, as MP4 counts


@pytest.fixture(params=[(rate, shape) for rate in RATES for shape in SHAPES], ids="-".join)
def made(request: pytest.FixtureRequest, package: Callable[[str, str], Packaged]) -> Packaged:
    return package(*request.param)


def test_layout(made: Packaged) -> None:
    there = {path.relative_to(made.folder).as_posix() for path in made.folder.rglob("*") if path.is_file()}
    expected = {"hls/master.m3u8", "dash/manifest.mpd"}
    for track in made.tracks:
        expected |= {f"hls/{track.name}.m3u8", f"media/{track.name}/init.mp4"}
        expected |= {f"media/{track.name}/{number}.m4s" for number in range(1, SEGMENTS + 1)}
        expected |= {f"hls/{track.name}-iframes.m3u8"} if track.rung else set()
    assert there == expected
    assert set(made.result.files) == expected
    assert (made.result.hls, made.result.dash) == ("hls/master.m3u8", "dash/manifest.mpd")
    listed = [path for track in made.result.tracks for path in track.files]
    assert len(listed) == len(set(listed)) == len(expected) - 2


def test_playlists_and_mpd_lead_to_the_files(made: Packaged) -> None:
    for playlist in (made.folder / "hls").iterdir():
        for line in playlist.read_text().splitlines():
            uris = re.findall(r'URI="([^"]+)"', line) if line.startswith("#") else [line] if line else []
            assert all((playlist.parent / uri).is_file() for uri in uris), line
    text = (made.folder / "dash/manifest.mpd").read_text()
    (base,) = re.findall("<BaseURL>(.+)</BaseURL>", text)
    names = re.findall(r'(?:initialization|media)="([^"]+)"', text)
    assert len(names) == 2 * len(made.tracks)
    assert all((made.folder / "dash" / base / name.replace("$Number$", "1")).is_file() for name in names)


def test_durations(made: Packaged) -> None:
    frame = 1 / made.plan.frame_rate
    for track in made.result.tracks:
        assert abs(track.duration_seconds - made.plan.duration_seconds) <= (0 if track.name != "audio" else frame)
        text = (made.folder / f"hls/{track.name}.m3u8").read_text()
        assert text.rstrip().endswith("#EXT-X-ENDLIST")
        assert "#EXT-X-PLAYLIST-TYPE:VOD" in text
        stated = [Fraction(value) for value in re.findall("#EXTINF:([0-9.]+)", text)]
        assert len(stated) == SEGMENTS
        assert abs(sum(stated) - made.plan.duration_seconds) <= frame
    (total,) = re.findall(r'mediaPresentationDuration="PT([0-9.]+)S"', (made.folder / "dash/manifest.mpd").read_text())
    assert abs(Fraction(total) - made.plan.duration_seconds) <= frame


def packets(ffprobe: Binary, made: Packaged, name: str) -> list[dict[str, Any]]:
    """The packets of a track as ffprobe sees them, whose reader of MP4 is not ours."""
    files = ["init.mp4", *(f"{number}.m4s" for number in range(1, SEGMENTS + 1))]
    ended = subprocess.run(
        [ffprobe.path, "-v", "error", "-show_entries", "packet=pts_time,duration_time,flags", "-of", "json", "-"],
        input=b"".join((made.folder / f"media/{name}/{file}").read_bytes() for file in files),
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    found: list[dict[str, Any]] = json.loads(ended.stdout)["packets"]
    return found


def test_another_reader_sees_the_same_frames_at_the_same_times(made: Packaged, ffprobe: Binary) -> None:
    plan = made.plan
    grid = [float(frame / plan.frame_rate) for frame in range(plan.frames)]
    for rung in plan.rungs:
        seen = packets(ffprobe, made, rung.name)
        times = sorted(float(packet["pts_time"]) for packet in seen)
        # FFmpeg's reader delays all pictures alike where composition offsets are negative.
        assert [time - times[0] for time in times] == pytest.approx(grid, abs=1e-5)
        keyframes = [float(packet["pts_time"]) - times[0] for packet in seen if packet["flags"].startswith("K")]
        assert keyframes == pytest.approx(grid[:: plan.gop_frames], abs=1e-5)


def test_sound_is_as_long_as_the_picture(made: Packaged, ffprobe: Binary) -> None:
    spans = [(float(packet["pts_time"]), float(packet["duration_time"])) for packet in packets(ffprobe, made, "audio")]
    heard = [(at, length) for at, length in spans if at + length > 1e-5]  # before 0 lies the encoder's priming
    assert heard[0][0] == pytest.approx(0, abs=1e-5)
    end = sum(heard[-1])
    assert end == pytest.approx(float(made.plan.duration_seconds), abs=float(1 / made.plan.frame_rate))


@pytest.mark.parametrize("rate", RATES)
def test_both_shapes_of_input_give_the_same_timeline(package: Callable[[str, str], Packaged], rate: str) -> None:
    plain, fragmented = package(rate, "plain"), package(rate, "fragmented")
    assert plain.result.files == fragmented.result.files
    for name in ("360p", "240p", "144p", "audio"):
        path = f"hls/{name}.m3u8"
        assert (plain.folder / path).read_text() == (fragmented.folder / path).read_text()
    timelines = [
        re.findall("<(?:S |Representation |MPD ).*", re.sub(r'bandwidth="\d+"', "", made.read_text()))
        for made in (plain.folder / "dash/manifest.mpd", fragmented.folder / "dash/manifest.mpd")
    ]
    assert timelines[0] == timelines[1]
    assert [track.duration_seconds for track in plain.result.tracks] == [
        track.duration_seconds for track in fragmented.result.tracks
    ]


def test_rates_are_those_of_the_segments(made: Packaged) -> None:
    mpd = (made.folder / "dash/manifest.mpd").read_text()
    master = (made.folder / "hls/master.m3u8").read_text()
    tracks = {track.name: track for track in made.result.tracks}
    for name, track in tracks.items():
        durations = re.findall("#EXTINF:([0-9.]+)", (made.folder / f"hls/{name}.m3u8").read_text())
        sizes = [(made.folder / f"media/{name}/{n}.m4s").stat().st_size * 8 for n in range(1, SEGMENTS + 1)]
        rates = [size / float(seconds) for size, seconds in zip(sizes, durations, strict=True)]
        average = sum(sizes) / float(made.plan.duration_seconds)
        assert track.average_bandwidth == pytest.approx(average, rel=0.001)
        assert track.bandwidth == pytest.approx(max(average, *rates[:-1]), rel=0.001)  # the last is 2 s of 6 s
        assert f'bandwidth="{track.bandwidth}" codecs="{track.codecs}"' in mpd
    sound = tracks["audio"]
    for rung in made.plan.rungs:
        peak = tracks[rung.name].bandwidth + sound.bandwidth
        average = tracks[rung.name].average_bandwidth + sound.average_bandwidth
        assert f"#EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average}," in master


def test_what_players_choose_by(made: Packaged) -> None:
    master = (made.folder / "hls/master.m3u8").read_text()
    mpd = (made.folder / "dash/manifest.mpd").read_text()
    (sound,) = re.findall("#EXT-X-MEDIA:(.*)", master)
    assert 'TYPE=AUDIO,URI="audio.m3u8"' in sound
    assert 'LANGUAGE="en"' in sound
    assert "DEFAULT=YES" in sound
    assert 'contentType="audio" lang="en"' in mpd
    for rung in made.plan.rungs:
        assert f"RESOLUTION={rung.width}x{rung.height}," in master
    assert {track.codecs.partition(".")[0] for track in made.result.tracks} == {"avc1", "mp4a"}


def digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def test_the_same_input_gives_the_same_bytes(made: Packaged, packager: ShakaPackager, tmp_path: Path) -> None:
    first = digests(made.folder)
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        await packager.package(made.tracks, made.plan, folder)
        assert digests(folder) == first


def test_no_header_tells_when_it_was_made(made: Packaged) -> None:
    for track in made.tracks:
        header = (made.folder / f"media/{track.name}/init.mp4").read_bytes()
        for box in (b"mvhd", b"tkhd", b"mdhd"):
            at = header.index(box) + 4
            assert header[at] == 0  # times of four bytes
            made_at = struct.unpack_from(">II", header, at + 4)
            assert made_at == (UNIX_EPOCH, UNIX_EPOCH), f"{box.decode()} of {track.name}"


@pytest.mark.parametrize("language", ["", "EN", "zz", "deu", "qaa"])
async def test_no_language_of_a_source_stops_packaging(
    language: str, inputs: Callable[[str, str], Inputs], packager: ShakaPackager, tmp_path: Path
) -> None:
    given = inputs("25", "fragmented")
    assert given.plan.audio is not None
    sound = given.plan.audio.model_copy(update={"language": language})
    tracks = [*given.tracks[:-1], TrackInput(name="audio", path=given.tracks[-1].path, rung=None, audio=sound)]
    await packager.package(tracks, given.plan.model_copy(update={"audio": sound}), tmp_path)
    known = {"EN": "en", "deu": "de", "qaa": "qaa"}
    stated = re.findall('LANGUAGE="([^"]*)"', (tmp_path / "hls/master.m3u8").read_text())
    assert stated == ([known[language]] if language in known else [])


async def test_a_silent_video_shorter_than_a_segment(
    make: Callable[..., None], packager: ShakaPackager, tmp_path: Path
) -> None:
    plan = plan_for(Fraction(24000, 1001), seconds=1.3, audio=False)
    source, folder = tmp_path / "source", tmp_path / "package"
    source.mkdir()
    folder.mkdir()
    result = await packager.package(encode(make, plan, source, shape="fragmented"), plan, folder)
    assert [track.duration_seconds for track in result.tracks] == [plan.duration_seconds] * len(plan.rungs)
    assert "EXT-X-MEDIA" not in (folder / "hls/master.m3u8").read_text()


@pytest.mark.parametrize(
    "rate", [Fraction(24), Fraction(24000, 1001), Fraction(60000, 1001), Fraction(2381, 100)], ids=str
)
async def test_borders_do_not_slip_over_many_segments(
    rate: Fraction, make: Callable[..., None], packager: ShakaPackager, tmp_path: Path
) -> None:
    """A GOP a segment: the package is verified against the frames of the plan, so that one slip would be a failure."""
    long = plan_for(rate, seconds=120)
    plan = long.model_copy(update={"rungs": long.rungs[-1:], "segment_frames": long.gop_frames})
    source, folder = tmp_path / "source", tmp_path / "package"
    source.mkdir()
    folder.mkdir()
    result = await packager.package(encode(make, plan, source, shape="fragmented"), plan, folder)
    assert len([path for path in result.files if path.startswith("media/144p/")]) == 1 + -(
        -plan.frames // plan.gop_frames
    )


async def test_a_missing_packager_is_told() -> None:
    with pytest.raises(Failure) as caught:
        await find_packager(Path("/nowhere/packager"))
    assert caught.value.code == "tool_missing"


async def test_a_program_that_is_no_packager_is_told() -> None:
    with pytest.raises(Failure) as caught:
        await find_packager(Path("/bin/true"))
    assert caught.value.code == "tool_missing"


def test_the_version_is_part_of_the_plan(packager: ShakaPackager) -> None:
    assert re.fullmatch(r"v\d+\.\d+\.\d+\S*", packager.versions()["shaka-packager"])


async def test_a_write_that_fails_is_told_as_a_full_disk(
    packager_binary: Binary, inputs: Callable[[str, str], Inputs], tmp_path: Path
) -> None:
    limited = tmp_path / "limited"
    # Files of at most 64 blocks of 512 or 1024 bytes; the signal is ignored, so that the write itself fails.
    limited.write_text(f"#!/bin/sh\ntrap '' XFSZ\nulimit -f 64\nexec '{packager_binary.path}' \"$@\"\n")
    limited.chmod(0o755)
    given = inputs("25", "fragmented")
    folder = tmp_path / "package"
    folder.mkdir()
    binary = Binary(path=limited, version=packager_binary.version)
    with pytest.raises(Failure) as caught:
        await ShakaPackager(binary, ceiling_factor=3, nice=0).package(given.tracks, given.plan, folder)
    assert caught.value.code == "disk_full"


async def test_input_that_is_no_mp4(
    packager: ShakaPackager, inputs: Callable[[str, str], Inputs], tmp_path: Path
) -> None:
    given = inputs("25", "fragmented")
    text = tmp_path / "text.mp4"
    text.write_text("not a video\n" * 1000)
    first = TrackInput(name=given.tracks[0].name, path=text, rung=given.tracks[0].rung, audio=None)
    folder = tmp_path / "package"
    folder.mkdir()
    with pytest.raises(Failure) as caught:
        await packager.package([first, *given.tracks[1:]], given.plan, folder)
    assert caught.value.code == "tool_crashed"
    assert caught.value.detail


@pytest.mark.parametrize("peak", [4, 11])
async def test_the_segment_with_the_highest_rate_counts_wherever_it_is(
    peak: int, make: Callable[..., None], packager: ShakaPackager, tmp_path: Path
) -> None:
    """Shaka Packager 3.8.0 leaves the eleventh out of what it states."""
    long = plan_for(Fraction(25), seconds=40, audio=False)
    plan = long.model_copy(update={"rungs": long.rungs[-1:], "segment_frames": long.gop_frames})
    source, folder = tmp_path / "source", tmp_path / "package"
    source.mkdir()
    folder.mkdir()
    noise = f"noise=alls=60:allf=t:enable='between(t,{2 * peak - 2},{2 * peak - 0.1})'"
    (track,) = (
        await packager.package(encode(make, plan, source, shape="fragmented", picture=noise), plan, folder)
    ).tracks
    sizes = [(folder / f"media/144p/{number}.m4s").stat().st_size for number in range(1, 21)]
    assert sizes.index(max(sizes)) == peak - 1
    assert track.bandwidth == max(sizes) * 8 / 2
    assert f'bandwidth="{track.bandwidth}"' in (folder / "dash/manifest.mpd").read_text()
    assert f"#EXT-X-STREAM-INF:BANDWIDTH={track.bandwidth}," in (folder / "hls/master.m3u8").read_text()
