"""ffprobe's JSON into what the domain knows of streams. A stranger wrote every value: none is trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from vodpress.domain.media import AudioStream, PacketScan, VideoStream

# Containers with an index, where a seek lands on a keyframe; names as ffprobe prints them.
_INDEXED = {"mov", "matroska", "webm", "avi", "mxf", "asf", "nut", "ivf"}

Document = Mapping[str, Any]


def pictures(streams: Sequence[Document]) -> list[Document]:
    """The video streams that move: cover art is none."""
    return [
        stream
        for stream in streams
        if stream.get("codec_type") == "video" and not (stream.get("disposition") or {}).get("attached_pic")
    ]


def others(streams: Sequence[Document]) -> tuple[str, ...]:
    """Kinds of streams that are neither picture nor sound."""
    used = [stream for stream in streams if stream.get("codec_type") == "audio"] + pictures(streams)
    return tuple(str(stream.get("codec_type", "unknown")) for stream in streams if stream not in used)


def is_indexed(container: str) -> bool:
    """Whether a container of these names has an index."""
    return bool(_INDEXED & set(container.split(",")))


def time_base(stream: Document) -> Fraction:
    """Length of a tick in seconds."""
    return ratio(stream.get("time_base")) or Fraction(1, 90_000)


def video_stream(stream: Document, scan: PacketScan) -> VideoStream:
    """A video stream, its size as displayed."""
    coded = (int(stream.get("width") or 0), int(stream.get("height") or 0))
    aspect = ratio(stream.get("sample_aspect_ratio"), separator=":") or Fraction(1)
    rotation = _rotation(stream)
    shown = (round(coded[0] * aspect), coded[1])
    width, height = (shown[1], shown[0]) if rotation in {90, 270} else shown
    tick = time_base(stream)
    return VideoStream(
        index=int(stream["index"]),
        codec=_text(stream, "codec_name"),
        profile=_text(stream, "profile"),
        pixel_format=_text(stream, "pix_fmt"),
        width=width,
        height=height,
        coded_width=coded[0],
        coded_height=coded[1],
        sample_aspect_ratio=aspect,
        rotation_degrees=rotation,
        declared_frame_rate=ratio(stream.get("avg_frame_rate")) or Fraction(0),
        time_base_seconds=tick,
        start_ticks=round(scan.first_pts_seconds / tick),
        declared_duration_seconds=seconds(stream.get("duration")),
        declared_frames=_count(stream.get("nb_frames")),
        color_transfer=_known(stream, "color_transfer"),
        color_primaries=_known(stream, "color_primaries"),
        color_space=_known(stream, "color_space"),
        color_range=_known(stream, "color_range"),
        field_order=_known(stream, "field_order"),
        scan=scan,
    )


def audio_streams(streams: Sequence[Document]) -> tuple[AudioStream, ...]:
    """The sound, in the file's order. Streams without a single channel or sample are left out."""
    return tuple(
        AudioStream(
            index=int(stream["index"]),
            codec=_text(stream, "codec_name"),
            channels=int(stream["channels"]),
            channel_layout=_known(stream, "channel_layout"),
            sample_rate_hz=int(stream["sample_rate"]),
            language=_language(stream),
            start_seconds=seconds(stream.get("start_time")) or Fraction(0),
            declared_duration_seconds=seconds(stream.get("duration")),
        )
        for stream in streams
        if stream.get("codec_type") == "audio" and stream.get("channels") and _count(stream.get("sample_rate"))
    )


def ratio(value: object, separator: str = "/") -> Fraction | None:
    """`30000/1001` or `128:117`; `None` where it is zero, negative or no ratio."""
    numerator, _, denominator = str(value or "").partition(separator)
    try:
        found = Fraction(int(numerator), int(denominator))
    except (ValueError, ZeroDivisionError):
        return None
    return found if found > 0 else None


def seconds(value: object) -> Fraction | None:
    """A decimal number of seconds; `None` where it is none."""
    try:
        return Fraction(str(value))
    except ValueError:
        return None


def _count(value: object) -> int | None:
    text = str(value or "")
    return int(text) if text.isdigit() and int(text) > 0 else None


def _rotation(stream: Document) -> int:
    """Clockwise turn; ffprobe states the display matrix's angle counter-clockwise."""
    for side_data in stream.get("side_data_list") or ():
        if "rotation" in side_data:
            return round(-float(side_data["rotation"]) / 90) % 4 * 90
    return 0


def _language(stream: Document) -> str:
    language = str((stream.get("tags") or {}).get("language", ""))
    return (
        language if language.isascii() and language.isalpha() and 2 <= len(language) <= 3 and language != "und" else ""
    )


def _text(stream: Document, key: str) -> str:
    return str(stream.get(key) or "")


def _known(stream: Document, key: str) -> str:
    value = _text(stream, key)
    return "" if value in {"unknown", "reserved"} else value
