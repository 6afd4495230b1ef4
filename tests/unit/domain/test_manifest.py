"""The manifest: it lists every file once, is what its published schema says, and comes back from JSON unchanged."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from vodpress.domain import manifest
from vodpress.domain.manifest import FileFacts, ImageFacts, PlaybackFacts, TrackFacts
from vodpress.domain.media import AudioStream, PacketScan, Probe, VideoStream
from vodpress.domain.plan import AudioPlan, RungPlan
from vodpress.domain.publication import Contents

SCHEMA: dict[str, Any] = json.loads(
    resources.files("vodpress").joinpath("schemas", manifest.SCHEMA_FILE).read_text(encoding="utf-8")
)
VALIDATOR = Draft202012Validator(SCHEMA)

HASHES = st.text("0123456789abcdef", min_size=64, max_size=64)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True)
RATES = st.sampled_from([Fraction(25), Fraction(30000, 1001), Fraction(24000, 1001), Fraction(60), Fraction(17, 3)])
COUNTS = st.integers(1, 10**9)
SECONDS = st.fractions(Fraction(1, 1000), 360_000, max_denominator=90_000)
MISSING = {"1080p": "pending", "240p": "waived"}

Arguments = dict[str, Any]


@st.composite
def files(draw: st.DrawFn, *paths: str) -> tuple[FileFacts, ...]:
    return tuple(FileFacts(path, draw(st.integers(0, 10**12)), draw(HASHES)) for path in paths)


@st.composite
def tracks(draw: st.DrawFn, name: str, codecs: str) -> TrackFacts:
    average = draw(COUNTS)
    segments = [f"media/{name}/{number}.m4s" for number in range(1, 1 + draw(st.integers(1, 4)))]
    return TrackFacts(
        name=name,
        codecs=codecs,
        bandwidth=average + draw(st.integers(0, 10**6)),
        average_bandwidth=average,
        frames=draw(COUNTS),
        files=draw(files(f"hls/{name}.m3u8", f"media/{name}/init.mp4", *segments)),
    )


@st.composite
def probes(draw: st.DrawFn, *, audible: bool) -> Probe:
    duration = draw(SECONDS)
    scan = PacketScan(
        packets=draw(COUNTS),
        first_pts_seconds=Fraction(0),
        end_seconds=duration,
        shortest_gap_seconds=Fraction(1, 30),
        longest_gap_seconds=draw(st.sampled_from([Fraction(1, 30), Fraction(1)])),
        median_gap_seconds=Fraction(1, 30),
        longest_keyframe_gap_seconds=duration,
    )
    side = st.integers(2, 8192)
    video = VideoStream(
        index=0,
        codec=draw(st.sampled_from(["h264", "hevc", "av1", "prores"])),
        profile="",
        pixel_format="yuv420p",
        width=draw(side),
        height=draw(side),
        coded_width=2,
        coded_height=2,
        sample_aspect_ratio=Fraction(1),
        rotation_degrees=draw(st.sampled_from([0, 90, 180, 270])),
        declared_frame_rate=draw(st.one_of(RATES, st.just(Fraction(0)))),
        time_base_seconds=Fraction(1, 90_000),
        start_ticks=0,
        declared_duration_seconds=None,
        declared_frames=None,
        color_transfer="",
        color_primaries="",
        color_space="",
        color_range="",
        field_order="",
        scan=scan,
    )
    audio = AudioStream(
        index=1,
        codec="mp3",
        channels=2,
        channel_layout="stereo",
        sample_rate_hz=44_100,
        language="",
        start_seconds=Fraction(0),
        declared_duration_seconds=None,
    )
    return Probe(
        container=draw(st.sampled_from(["mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "mpegts"])),
        bytes=draw(COUNTS),
        duration_seconds=duration,
        video=video,
        audio=(audio,) if audible else (),
        seekable=True,
    )


@st.composite
def arguments(draw: st.DrawFn) -> Arguments:
    """What `build` is called with, as packaging does."""
    names = draw(st.lists(NAMES.filter(lambda name: name != "master"), min_size=1, max_size=5, unique=True))
    sound_name = draw(NAMES.filter(lambda name: name not in (*names, "master")))
    audible = draw(st.booleans())
    size = st.integers(1, 4096).map(lambda half: 2 * half)
    renditions = [
        (
            RungPlan(
                name=name,
                width=draw(size),
                height=draw(size),
                codec="h264",
                profile="high",
                crf=23,
                maxrate_kbps=1000,
                required=draw(st.booleans()),
            ),
            draw(tracks(name, "avc1.64001f")),
        )
        for name in names
    ]
    sound = AudioPlan(
        name=sound_name,
        stream_index=1,
        codec="aac",
        bitrate_kbps=128,
        channels=draw(st.integers(1, 8)),
        sample_rate_hz=48_000,
        language=draw(st.sampled_from(["", "en", "deu", "EN"])),
    )
    pictures = ("poster.jpg", "storyboard.vtt", "storyboard/1.jpg")
    return {
        "asset": draw(st.uuids().map(lambda uuid: uuid.hex)),
        "version": draw(st.integers(1, 1000)),
        "source_sha256": draw(HASHES),
        "probe": draw(probes(audible=audible)),
        "plan_hash": draw(HASHES),
        "ladder": draw(NAMES),
        "duration_seconds": draw(SECONDS),
        "frame_rate": draw(RATES),
        "renditions": renditions,
        "audio": [(sound, draw(tracks(sound_name, "mp4a.40.2")))] if audible else [],
        "images": draw(st.none() | files(*pictures).map(lambda found: ImageFacts(*pictures[:2], found))),
        "missing": MISSING,
        "playback": PlaybackFacts(
            "hls/master.m3u8", "dash/manifest.mpd", draw(files("hls/master.m3u8", "dash/manifest.mpd"))
        ),
        "created_at": draw(st.datetimes().map(lambda moment: moment.strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20))),
    }


@pytest.fixture(scope="module")
def one() -> Arguments:
    """Arguments with everything in them."""

    def track(name: str, codecs: str) -> TrackFacts:
        paths = (f"hls/{name}.m3u8", f"media/{name}/init.mp4", f"media/{name}/1.m4s")
        return TrackFacts(name, codecs, 900, 800, 50, tuple(FileFacts(path, 10, "a" * 64) for path in paths))

    def listed(*paths: str) -> tuple[FileFacts, ...]:
        return tuple(FileFacts(path, 10, "b" * 64) for path in paths)

    rung = RungPlan(
        name="480p", width=854, height=480, codec="h264", profile="main", crf=23, maxrate_kbps=1000, required=True
    )
    sound = AudioPlan(
        name="audio", stream_index=1, codec="aac", bitrate_kbps=128, channels=2, sample_rate_hz=48_000, language="eng"
    )
    gap = Fraction(1, 25)
    scan = PacketScan(50, Fraction(0), Fraction(2), gap, gap, gap, Fraction(2))
    video = VideoStream(
        0, "h264", "Main", "yuv420p", 1280, 720, 1280, 720, Fraction(1), 0, Fraction(25), Fraction(1, 25), 0,
        None, None, "", "", "", "", "", scan,
    )  # fmt: skip
    heard = AudioStream(1, "mp3", 2, "stereo", 44_100, "eng", Fraction(0), None)
    return {
        "asset": "0123",
        "version": 1,
        "source_sha256": "c" * 64,
        "probe": Probe("mov,mp4", 1000, Fraction(2), video, (heard,), seekable=True),
        "plan_hash": "d" * 64,
        "ladder": "default",
        "duration_seconds": Fraction(2),
        "frame_rate": Fraction(25),
        "renditions": [(rung, track("480p", "avc1.4d401e"))],
        "audio": [(sound, track("audio", "mp4a.40.2"))],
        "images": ImageFacts(
            "poster.jpg", "storyboard.vtt", listed("poster.jpg", "storyboard.vtt", "storyboard/1.jpg")
        ),
        "missing": MISSING,
        "playback": PlaybackFacts(
            "hls/master.m3u8", "dash/manifest.mpd", listed("hls/master.m3u8", "dash/manifest.mpd")
        ),
        "created_at": "2026-01-31T12:00:00Z",
    }


def given_files(facts: Mapping[str, Any]) -> list[FileFacts]:
    groups = [track for _, track in (*facts["renditions"], *facts["audio"])]
    return [file for group in (*groups, facts["images"], facts["playback"]) if group for file in group.files]


@given(arguments())
def test_every_file_is_listed_once_with_its_checksum(facts: Arguments) -> None:
    listed = list(manifest.files_of(manifest.build(**facts)))
    assert sorted(path for path, _ in listed) == sorted(file.path for file in given_files(facts))
    assert len({path for path, _ in listed}) == len(listed)
    assert dict(listed) == {file.path: {"bytes": file.bytes, "sha256": file.sha256} for file in given_files(facts)}


@given(arguments())
def test_it_is_what_the_schema_says(facts: Arguments) -> None:
    VALIDATOR.validate(manifest.build(**facts))


@given(arguments())
def test_it_comes_back_from_json_unchanged(facts: Arguments) -> None:
    document = manifest.build(**facts)
    written = manifest.to_json(document)
    assert written.endswith(b"}\n")
    assert json.loads(written) == document
    assert list(manifest.files_of(json.loads(written))) == list(manifest.files_of(document))
    assert manifest.to_json(manifest.build(**facts)) == written == manifest.to_json(json.loads(written))


def test_contents(one: Arguments) -> None:
    document = manifest.build(**one)
    assert list(document) == [
        "schema", "asset", "version", "source", "plan_hash", "ladder", "duration_seconds", "renditions", "audio",
        "images", "missing", "playback", "created_at",
    ]  # fmt: skip
    assert document["schema"] == "vodpress.manifest/1"
    assert document["source"] == {
        "sha256": "c" * 64, "bytes": 1000, "container": "mov,mp4", "duration_seconds": 2.0, "width": 1280,
        "height": 720, "frame_rate": "25", "variable_frame_rate": False, "rotation_degrees": 0, "video_codec": "h264",
        "audio_codec": "mp3",
    }  # fmt: skip
    (rendition,), (sound,) = document["renditions"], document["audio"]
    assert {key: value for key, value in rendition.items() if key != "files"} == {
        "name": "480p", "width": 854, "height": 480, "frame_rate": "25", "codecs": "avc1.4d401e", "bandwidth": 900,
        "average_bandwidth": 800, "frames": 50, "required": True,
    }  # fmt: skip
    assert {key: value for key, value in sound.items() if key != "files"} == {
        "name": "audio", "codecs": "mp4a.40.2", "bandwidth": 900, "average_bandwidth": 800, "channels": 2,
        "sample_rate_hz": 48_000, "language": "eng",
    }  # fmt: skip
    assert document["missing"] == [{"name": "1080p", "reason": "pending"}, {"name": "240p", "reason": "waived"}]
    assert manifest.contents_of(document) == Contents(("480p", "audio"), ("240p",), images=True)
    assert (document["playback"]["hls"], document["playback"]["dash"]) == ("hls/master.m3u8", "dash/manifest.mpd")
    assert (document["images"]["poster"], document["images"]["storyboard"]) == ("poster.jpg", "storyboard.vtt")


def test_a_fractional_frame_rate_stays_exact(one: Arguments) -> None:
    document = manifest.build(**one | {"frame_rate": Fraction(30000, 1001)})
    assert document["renditions"][0]["frame_rate"] == "30000/1001"


def test_without_sound_and_images(one: Arguments) -> None:
    silent = replace(one["probe"], audio=())
    document = manifest.build(**one | {"probe": silent, "audio": [], "images": None})
    assert (document["audio"], document["images"], document["source"]["audio_codec"]) == ([], {}, None)
    VALIDATOR.validate(document)


BAD_PATHS = ["", ".", "..", "/etc/passwd", "../x", "a/../b", "a/..", "./a", "a//b", "a/", "a\n", "a\x00b", "/"]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_is_not_plain_is_refused(one: Arguments, path: str) -> None:
    listed = one["playback"]
    spoilt = replace(listed, files=(*listed.files, FileFacts(path, 1, "e" * 64)))
    with pytest.raises(ValueError, match="no plain relative path"):
        manifest.build(**one | {"playback": spoilt})


@pytest.mark.parametrize("path", BAD_PATHS)
def test_the_schema_refuses_it_too(one: Arguments, path: str) -> None:
    document = manifest.build(**one)
    document["playback"]["files"][0]["path"] = path
    assert not VALIDATOR.is_valid(document)


def test_a_file_listed_twice_is_refused(one: Arguments) -> None:
    listed = one["playback"]
    twice = replace(listed, files=(*listed.files, FileFacts("poster.jpg", 1, "e" * 64)))
    with pytest.raises(ValueError, match=r"listed twice: \['poster.jpg'\]"):
        manifest.build(**one | {"playback": twice})


@pytest.mark.parametrize(
    "spoil",
    [
        lambda one: {"playback": replace(one["playback"], hls="hls/other.m3u8")},
        lambda one: {"playback": replace(one["playback"], dash="hls/other.mpd")},
        lambda one: {"images": replace(one["images"], poster="other.jpg")},
        lambda one: {"images": replace(one["images"], storyboard="other.vtt")},
    ],
)
def test_players_are_sent_only_to_listed_files(one: Arguments, spoil: Callable[[Arguments], Arguments]) -> None:
    with pytest.raises(ValueError, match="not among its files"):
        manifest.build(**one | spoil(one))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema"] == {"const": manifest.SCHEMA}


def objects(document: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where objects lie in a document."""
    if isinstance(document, dict):
        yield at
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield from objects(value, (*at, key))


def inside(document: Any, at: tuple[str | int, ...]) -> dict[str, Any]:
    for key in at:
        document = document[key]
    found: dict[str, Any] = document
    return found


def test_the_schema_refuses_a_key_too_many_or_too_few_anywhere(one: Arguments) -> None:
    document = manifest.build(**one)
    places = list(objects(document))
    assert len(places) > 10
    for at in places:
        more = copy.deepcopy(document)
        inside(more, at)["unknown"] = 1
        assert not VALIDATOR.is_valid(more), f"a key too many at {at}"
        for key in inside(document, at):
            fewer = copy.deepcopy(document)
            del inside(fewer, at)[key]
            assert not VALIDATOR.is_valid(fewer), f"{key} too few at {at}"


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (("schema",), "vodpress.manifest/2"),
        (("version",), 0),
        (("plan_hash",), "D" * 64),
        (("plan_hash",), "d" * 63),
        (("plan_hash",), "d" * 64 + "\n"),
        (("duration_seconds",), 0),
        (("renditions",), []),
        (("renditions", 0, "frame_rate"), "25.0"),
        (("renditions", 0, "frame_rate"), 25),
        (("renditions", 0, "frame_rate"), "30000/0"),
        (("renditions", 0, "frame_rate"), "0"),
        (("renditions", 0, "codecs"), "H.264"),
        (("renditions", 0, "bandwidth"), 0),
        (("renditions", 0, "files"), []),
        (("audio", 0, "language"), "en-US"),
        (("source", "rotation_degrees"), 45),
        (("images",), {"poster": "poster.jpg"}),
        (("images",), None),
        (("playback", "files", 0, "bytes"), -1),
        (("playback", "hls"), "/hls/master.m3u8"),
        (("created_at",), "2026-01-31 12:00:00"),
        (("created_at",), "2026-01-31T12:00:00+01:00"),
    ],
)
def test_the_schema_refuses_wrong_values(one: Arguments, at: tuple[str | int, ...], value: object) -> None:
    document = manifest.build(**one)
    inside(document, at[:-1])[str(at[-1])] = value
    assert not VALIDATOR.is_valid(document)
