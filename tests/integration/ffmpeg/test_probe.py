"""The prober on files as they come: turned, cropped, damaged, hostile."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from vodpress.adapters.ffmpeg.probe import FFmpegProber, SourceLimits
from vodpress.adapters.programs import Binary
from vodpress.domain.failure import Failure, FailureKind
from vodpress.domain.media import Probe

from ..conftest import LIMITS

Make = Callable[..., None]
VIDEO = ["-f", "lavfi", "-i", "testsrc2=s=320x180:r=25:d=6"]
SOUND = ["-f", "lavfi", "-i", "sine=440:d=6"]
H264 = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]


async def checked(prober: FFmpegProber, path: Path) -> Probe:
    probe = await prober.probe(path)
    await prober.decode_check(path, probe)
    return probe


async def refusal(prober: FFmpegProber, path: Path) -> Failure:
    with pytest.raises(Failure) as caught:
        await checked(prober, path)
    assert caught.value.kind is FailureKind.CONTENT
    assert caught.value.message.endswith(".")
    return caught.value


async def test_facts(make: Make, prober: FFmpegProber, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    make(*VIDEO, *SOUND, *H264, "-c:a", "aac", "-metadata:s:a:0", "language=deu", path)
    probe = await checked(prober, path)
    assert (probe.video.width, probe.video.height) == (320, 180)
    assert probe.video.declared_frame_rate == 25
    assert probe.video.scan.packets == 150
    assert probe.video.scan.duration_seconds == 6
    assert not probe.video.is_variable_frame_rate
    assert probe.seekable
    assert [(audio.codec, audio.language) for audio in probe.audio] == [("aac", "deu")]
    assert probe.bytes == path.stat().st_size


async def test_turned_and_stretched(make: Make, prober: FFmpegProber, tmp_path: Path) -> None:
    flat, turned, wide = tmp_path / "flat.mp4", tmp_path / "turned.mp4", tmp_path / "wide.mp4"
    make(*VIDEO, *H264, flat)
    make("-display_rotation:v:0", "90", "-i", flat, "-c", "copy", turned)
    make(*VIDEO, "-vf", "setsar=4/3", *H264, wide)
    probe = await checked(prober, turned)
    assert (probe.video.width, probe.video.height, probe.video.rotation_degrees) == (180, 320, 270)
    probe = await checked(prober, wide)
    assert (probe.video.width, probe.video.height) == (427, 180)
    assert probe.video.sample_aspect_ratio == Fraction(4, 3)


async def test_cover_art_is_no_video(make: Make, prober: FFmpegProber, tmp_path: Path) -> None:
    cover, path = tmp_path / "cover.png", tmp_path / "song.mp3"
    make("-f", "lavfi", "-i", "color=red:s=64x64", "-frames:v", "1", cover)
    make(*SOUND, "-i", cover, "-map", "0", "-map", "1", "-disposition:v:0", "attached_pic", path)
    assert (await refusal(prober, path)).code == "no_video_stream"


async def test_sound_alone(make: Make, prober: FFmpegProber, tmp_path: Path) -> None:
    path = tmp_path / "sound.m4a"
    make(*SOUND, path)
    assert (await refusal(prober, path)).code == "no_video_stream"


@pytest.mark.parametrize("content", [b"Just a text.\n" * 500, b"\x00" * 5000, b"\xff\xd8\xff\xe0" + b"x" * 500])
async def test_no_container(prober: FFmpegProber, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.mp4"
    path.write_bytes(content)
    assert (await refusal(prober, path)).code == "source_unreadable"


async def test_nothing(prober: FFmpegProber, tmp_path: Path) -> None:
    path = tmp_path / "nothing.mp4"
    path.touch()
    assert (await refusal(prober, path)).code == "source_empty"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("index-first.mp4", ["-movflags", "+faststart"]),
        ("index-last.mp4", []),
        ("clip.mkv", []),
        ("clip.avi", ["-c:a", "mp3"]),
    ],
)
async def test_cut_short(make: Make, prober: FFmpegProber, tmp_path: Path, name: str, options: list[str]) -> None:
    path = tmp_path / name
    make(*VIDEO, *SOUND, *H264, *options, path)
    await checked(prober, path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    assert (await refusal(prober, path)).code == "source_truncated"


async def test_damage(make: Make, prober: FFmpegProber, tmp_path: Path) -> None:
    """Noise where the middle of the picture was: the packets are all there, but what is in them is not video."""
    path = tmp_path / "clip.mp4"
    make(*VIDEO, *H264, "-bf", "0", "-movflags", "+faststart", path)
    data = bytearray(path.read_bytes())
    begin = len(data) // 3
    data[begin : begin + len(data) // 2] = b"\x00\x00\x00\x01\xff" * (len(data) // 10)
    path.write_bytes(data)
    assert (await refusal(prober, path)).code == "source_corrupt"


@pytest.mark.parametrize(
    "content",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\n{secret}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile '{secret}'\n",
    ],
)
async def test_a_playlist_opens_no_other_file(make: Make, prober: FFmpegProber, tmp_path: Path, content: str) -> None:
    secret = tmp_path / "secret.mp4"
    make(*VIDEO, *H264, secret)
    for name in ("list.m3u8", "list.mp4", "list.ffconcat"):
        path = tmp_path / name
        path.write_text(content.format(secret=secret))
        assert (await refusal(prober, path)).code == "source_unreadable"


async def test_limits(make: Make, ffmpeg: Binary, ffprobe: Binary, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    make(*VIDEO, *H264, path)
    wide = SourceLimits(max_duration_seconds=3600, max_pixels=1 << 25, max_frame_rate=240)
    for sources in (
        SourceLimits(max_duration_seconds=5, max_pixels=wide.max_pixels, max_frame_rate=wide.max_frame_rate),
        SourceLimits(max_duration_seconds=3600, max_pixels=320 * 180 - 1, max_frame_rate=wide.max_frame_rate),
        SourceLimits(max_duration_seconds=3600, max_pixels=wide.max_pixels, max_frame_rate=24),
    ):
        prober = FFmpegProber(ffprobe=ffprobe, ffmpeg=ffmpeg, sources=sources, run=LIMITS)
        assert (await refusal(prober, path)).code == "source_over_limits"
    await checked(FFmpegProber(ffprobe=ffprobe, ffmpeg=ffmpeg, sources=wide, run=LIMITS), path)


async def test_hostile_names(make: Make, prober: FFmpegProber, tmp_path: Path) -> None:
    folder = tmp_path / "-i http:"
    folder.mkdir()
    plain = tmp_path / "plain.mp4"
    make(*VIDEO, *H264, plain)
    for name in ("-y.mp4", "a b'c\"d.mp4", "concat:x|y.mp4", "übung\n.mp4", "%03d.mp4"):
        path = folder / name
        path.write_bytes(plain.read_bytes())
        assert (await checked(prober, path)).video.scan.packets == 150
