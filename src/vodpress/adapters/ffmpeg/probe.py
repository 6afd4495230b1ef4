"""The prober: what a source is, whether it is whole, and whether it can be decoded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from vodpress.adapters.ffmpeg import packets, streams
from vodpress.adapters.ffmpeg.failures import classify
from vodpress.adapters.ffmpeg.limits import RunLimits
from vodpress.adapters.ffmpeg.progress import ProgressReader
from vodpress.adapters.ffmpeg.untrusted import ALLOCATION, DECODER, DEMUXER, address
from vodpress.adapters.process import ToolExit, run_tool
from vodpress.adapters.programs import Binary
from vodpress.domain.failure import Failure, FailureKind
from vodpress.domain.media import Probe, VideoStream

_LARGEST_DESCRIPTION_BYTES = 8 << 20
_SAMPLE_SECONDS = 0.5
# Rounding of the last packet's duration, and sound that ends a little before the picture, are no truncation.
_SLACK_SECONDS = Fraction(1)
_SLACK_PART = Fraction(1, 50)
_DECODED_PART = Fraction(98, 100)
# Their stated length is estimated from the bytes or from the last packet, so it cannot show that some are missing.
_LENGTH_IS_ESTIMATED = {"mpegts", "mpeg", "flv", "ogg", "mp3", "aac", "ivf"}


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """What a source may be at most. `max_pixels` is width × height."""

    max_duration_seconds: float
    max_pixels: int
    max_frame_rate: float


class FFmpegProber:
    """`ports.Prober` by ffprobe and FFmpeg."""

    def __init__(self, *, ffprobe: Binary, ffmpeg: Binary, sources: SourceLimits, run: RunLimits) -> None:
        self._ffprobe = ffprobe
        self._ffmpeg = ffmpeg
        self._sources = sources
        self._run = run

    async def probe(self, path: Path) -> Probe:
        """See `ports.Prober.probe`."""
        size = await asyncio.to_thread(_size, path)
        if size == 0:
            raise Failure("source_empty", subject=path.name)
        document = await self._describe(path)
        every: list[dict[str, Any]] = document.get("streams") or []
        moving = streams.pictures(every)
        if not moving:
            raise Failure("no_video_stream", subject=path.name)
        if not moving[0].get("codec_name") or moving[0]["codec_name"] == "unknown":
            raise Failure("codec_unsupported", detail=str(moving[0].get("codec_tag_string")), subject=path.name)
        lines = await self._packets(path)
        stream = lines.streams.get(int(moving[0]["index"]))
        if stream is None or not stream.times:
            raise Failure("source_corrupt", detail="the video stream has no readable packet", subject=path.name)
        if stream.lacks_presentation_times:
            stream.shift_to(await self._first_frame_ticks(path, int(moving[0]["index"])))
        video = streams.video_stream(moving[0], packets.scan(stream, streams.time_base(moving[0])))
        container = str(document["format"].get("format_name", ""))
        declared = streams.seconds(document["format"].get("duration"))
        ends = [
            end
            for entry in every
            if (end := lines.end_seconds(int(entry["index"]), streams.time_base(entry))) is not None
        ]
        self._require_within_limits(video, declared or video.scan.duration_seconds, path)
        start = streams.seconds(document["format"].get("start_time")) or video.scan.first_pts_seconds
        _require_whole(video, container, declared, length=max(ends) - start, path=path)
        return Probe(
            container=container,
            bytes=size,
            duration_seconds=declared or video.scan.duration_seconds,
            video=video,
            audio=streams.audio_streams(every),
            seekable=streams.is_indexed(container),
            other_streams=streams.others(every),
            warnings=_warnings(stream, moving, every),
        )

    async def decode_check(self, path: Path, probe: Probe, *, whole: bool = False) -> None:
        """See `ports.Prober.decode_check`."""
        length = float(probe.video.scan.duration_seconds)
        whole = whole or length <= 3 * _SAMPLE_SECONDS
        reader = ProgressReader(frame_rate=Fraction(1))
        ended = await self._decode(_check_arguments(path, probe, whole=whole), length, reader, path)
        if not ended.succeeded:
            failure = classify(ended, subject=path.name)
            # The decoder's own crash or complaint about this file is the file's fault only when it said so.
            raise failure
        wanted = probe.video.scan.packets * _DECODED_PART if whole else 1
        if reader.done_seconds < wanted:
            detail = f"{reader.done_seconds:.0f} of {probe.video.scan.packets} frames could be decoded"
            raise Failure("source_corrupt", detail=detail, subject=path.name)

    async def _decode(self, arguments: Sequence[str], length: float, reader: ProgressReader, path: Path) -> ToolExit:
        async def on_line(line: bytes) -> bool:
            return reader.feed(line)

        del path
        return await run_tool(
            [self._ffmpeg.path, *arguments],
            tool="ffmpeg",
            on_line=on_line,
            stall_seconds=self._run.stall_seconds,
            ceiling_seconds=self._run.ceiling(media_seconds=length),
            nice=self._run.nice,
        )

    async def _describe(self, path: Path) -> dict[str, Any]:
        text = bytearray()

        async def keep(line: bytes) -> None:
            text.extend(line + b"\n")
            if len(text) > _LARGEST_DESCRIPTION_BYTES:
                raise Failure("source_over_limits", "The file describes itself at absurd length.", subject=path.name)

        ended = await self._look(path, ["-show_format", "-show_streams", "-of", "json"], keep)
        if not ended.succeeded:
            raise _unreadable(ended, path)
        document: dict[str, Any] = json.loads(text)
        if "format" not in document:
            raise Failure("source_unreadable", detail=ended.describe(), subject=path.name)
        return document

    async def _packets(self, path: Path) -> packets.PacketLines:
        lines = packets.PacketLines()
        ended = await self._look(path, ["-show_entries", packets.ENTRIES, "-of", "csv=p=0"], lines.feed)
        if not ended.succeeded:
            raise _unreadable(ended, path)
        return lines

    async def _first_frame_ticks(self, path: Path, index: int) -> int:
        """When the decoder shows the first frame, in ticks of the stream."""
        times: list[int] = []

        async def keep(line: bytes) -> None:
            if line.strip(b", \r").isdigit():
                times.append(int(line.strip(b", \r")))

        wanted = ["-select_streams", str(index), "-read_intervals", "%+#8", "-show_entries"]
        ended = await self._look(path, [*wanted, "frame=best_effort_timestamp", "-of", "csv=p=0"], keep)
        if not ended.succeeded or not times:
            raise Failure("source_corrupt", detail=ended.describe(), subject=path.name)
        return min(times)

    async def _look(self, path: Path, arguments: Sequence[str], on_line: Any) -> ToolExit:
        return await run_tool(
            [self._ffprobe.path, "-v", "error", *ALLOCATION, *DEMUXER, *arguments, "-i", address(path)],
            tool="ffprobe",
            on_line=on_line,
            stall_seconds=self._run.stall_seconds,
            nice=self._run.nice,
        )

    def _require_within_limits(self, video: VideoStream, duration: Fraction, path: Path) -> None:
        limits = self._sources
        median = video.scan.median_gap_seconds
        rate = float(1 / median) if median > 0 else 0.0
        if min(video.coded_width, video.coded_height) < 2:
            raise Failure("source_corrupt", detail=f"{video.coded_width} × {video.coded_height}", subject=path.name)
        for name, value, limit in (
            ("seconds long", float(max(duration, video.scan.duration_seconds)), limits.max_duration_seconds),
            (
                "pixels large",
                max(video.width * video.height, video.coded_width * video.coded_height),
                limits.max_pixels,
            ),
            ("frames a second", rate, limits.max_frame_rate),
        ):
            if value > limit:
                raise Failure(
                    "source_over_limits",
                    f"The video is {value:.0f} {name}; this installation accepts {limit:.0f}.",
                    subject=path.name,
                )


def _check_arguments(path: Path, probe: Probe, *, whole: bool) -> list[str]:
    """Decode to nothing: all of it, or half a second at the start, in the middle and at the end."""
    begin = probe.video.scan.first_pts_seconds
    length = probe.video.scan.duration_seconds
    picture = f":{probe.video.index}"
    arguments = ["-nostdin", "-v", "error", "-xerror", "-progress", "pipe:1", *ALLOCATION]
    opened = ["-threads", "1", *DEMUXER, *DECODER, "-i", address(path)]
    if whole:
        arguments += [*opened, "-map", f"0{picture}"]
        for stream in probe.audio:
            arguments += ["-map", f"0:{stream.index}"]
    else:
        spots = (Fraction(0), length / 2, length - Fraction(_SAMPLE_SECONDS))
        for number, spot in enumerate(spots):
            seek = ["-seek_timestamp", "1", "-ss", f"{float(begin + spot):.3f}"] if number else []
            arguments += [*seek, "-t", f"{_SAMPLE_SECONDS:g}", *opened]
        for number in range(len(spots)):
            arguments += ["-map", f"{number}{picture}"]
    return [*arguments, "-fps_mode", "passthrough", "-f", "null", "-"]


def _require_whole(
    video: VideoStream, container: str, declared: Fraction | None, *, length: Fraction, path: Path
) -> None:
    """Compare what the container states with the packets that are there."""
    frames = video.declared_frames
    if frames and video.scan.packets < frames - max(1, frames // 100):
        detail = f"{video.scan.packets} of {frames} declared frames are there"
        raise Failure("source_truncated", detail=detail, subject=path.name)
    if declared is None or _LENGTH_IS_ESTIMATED & set(container.split(",")):
        return
    if length < declared - max(_SLACK_SECONDS, declared * _SLACK_PART):
        detail = f"{float(length):.2f} of {float(declared):.2f} declared seconds are there"
        raise Failure("source_truncated", detail=detail, subject=path.name)


def _unreadable(ended: ToolExit, path: Path) -> Failure:
    failure = classify(ended, subject=path.name)
    if failure.kind is FailureKind.CONTENT or ended.status == 1:
        # By its name alone, anything may be taken for MP4; it is one that was cut short only if it begins like one.
        cut_short = "moov atom not found" in ended.stderr_tail and _begins_like_mp4(path)
        code = "source_truncated" if cut_short else "source_unreadable"
        return Failure(code, detail=ended.describe(), subject=path.name)
    return failure


def _begins_like_mp4(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8)[4:] in {b"ftyp", b"mdat", b"wide", b"free", b"skip"}


def _warnings(
    stream: packets.StreamPackets, moving: Sequence[streams.Document], every: Sequence[streams.Document]
) -> tuple[str, ...]:
    warnings = []
    if stream.corrupt:
        warnings.append(f"{stream.corrupt} packets are marked as damaged.")
    if len(moving) > 1:
        warnings.append(f"There are {len(moving)} video streams; the first is used.")
    if len(streams.audio_streams(every)) > 1:
        warnings.append(f"There are {len(streams.audio_streams(every))} audio streams; the first is used.")
    return tuple(warnings)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise Failure(
            "storage_unavailable", f"The source cannot be opened: {error.strerror}.", detail=str(path)
        ) from error
