"""Reads the playlists and the MPD that were just written: what they name, and how long they say it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

_MPD = "{urn:mpeg:dash:schema:mpd:2011}"
_DURATION = re.compile(r"PT([0-9.]+)S")  # the packager counts in seconds alone
_ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"]*"|[^",]*)')


class MalformedPlaylist(ValueError):
    """A playlist or MPD is not what it should be."""


@dataclass(frozen=True, slots=True)
class MediaPlaylist:
    """An HLS media playlist. Paths are relative to the package; durations as `EXTINF` states them, in seconds.

    `ranges` are the offset and length in bytes of each part that is named, where only a part of a file is.
    """

    init: str
    segments: tuple[str, ...]
    durations_seconds: tuple[Fraction, ...]
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Representation:
    """A DASH representation; `spans` are start and length of each segment in ticks of `timescale`.

    `bandwidth` is in bits a second.
    """

    codecs: str
    bandwidth: int
    init: str
    segments: tuple[str, ...]
    timescale: int
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """An MPD of one period."""

    duration_seconds: Fraction
    representations: tuple[Representation, ...]


def read_media_playlist(folder: Path, path: str) -> MediaPlaylist:
    """Raises `MalformedPlaylist`."""
    lines = _lines(folder, path)
    if lines[-1] != "#EXT-X-ENDLIST":
        raise MalformedPlaylist(f"{path} does not end with EXT-X-ENDLIST")
    init, segments, durations, ranges = "", [], [], []
    try:
        for line in lines:
            if line.startswith("#EXT-X-MAP:"):
                init = _resolve(path, _attributes(line)["URI"])
            elif line.startswith("#EXTINF:"):
                durations.append(Fraction(line.removeprefix("#EXTINF:").split(",")[0]))
            elif line.startswith("#EXT-X-BYTERANGE:"):
                length, _, offset = line.removeprefix("#EXT-X-BYTERANGE:").partition("@")
                ranges.append((int(offset), int(length)))
            elif not line.startswith("#"):
                segments.append(_resolve(path, line))
    except (KeyError, ValueError) as error:
        raise MalformedPlaylist(f"{path}: {error}") from error
    if not init or not segments or len(segments) != len(durations) or len(ranges) not in {0, len(segments)}:
        counts = f"{len(segments)} segments, {len(durations)} durations and {len(ranges)} byte ranges"
        raise MalformedPlaylist(f"{path} has {counts}")
    return MediaPlaylist(init=init, segments=tuple(segments), durations_seconds=tuple(durations), ranges=tuple(ranges))


def read_master_playlist(folder: Path, path: str) -> tuple[str, ...]:
    """The playlists that a master playlist names. Raises `MalformedPlaylist`."""
    named = []
    for line in _lines(folder, path):
        if line.startswith(("#EXT-X-MEDIA:", "#EXT-X-I-FRAME-STREAM-INF:")):
            named.append(_resolve(path, _attributes(line).get("URI", "")))
        elif not line.startswith("#"):
            named.append(_resolve(path, line))
    return tuple(named)


def read_manifest(folder: Path, path: str) -> Manifest:
    """An MPD with segment timelines. Raises `MalformedPlaylist`."""
    try:
        root = ElementTree.parse(folder / path).getroot()  # noqa: S314 - our own packager wrote it this moment
        if root.get("type") != "static":
            raise MalformedPlaylist("it is not static")
        stated = _DURATION.fullmatch(root.get("mediaPresentationDuration", ""))
        if stated is None:
            raise MalformedPlaylist("it states no duration in seconds")
        base = _resolve(path, root.findtext(f"{_MPD}BaseURL", ""))
        return Manifest(
            duration_seconds=Fraction(stated[1]),
            representations=tuple(_representation(element, base) for element in root.iter(f"{_MPD}Representation")),
        )
    except (ElementTree.ParseError, OSError, KeyError, ValueError) as error:
        raise MalformedPlaylist(f"{path}: {error}") from error


def _representation(element: ElementTree.Element, base: str) -> Representation:
    template = element.find(f"{_MPD}SegmentTemplate")
    if template is None:
        raise MalformedPlaylist("a representation has no SegmentTemplate")
    spans: list[tuple[int, int]] = []
    at = 0
    for entry in template.iter(f"{_MPD}S"):
        at = int(entry.get("t", at))
        length = int(entry.attrib["d"])
        for _ in range(int(entry.get("r", "0")) + 1):
            spans.append((at, length))
            at += length
    timescale = int(template.attrib["timescale"])
    if timescale <= 0 or not spans or any(length <= 0 for _, length in spans):
        raise MalformedPlaylist("a representation has a timeline without time")
    first = int(template.get("startNumber", "1"))
    media = template.attrib["media"]
    return Representation(
        codecs=element.attrib["codecs"],
        bandwidth=int(element.attrib["bandwidth"]),
        init=str(PurePosixPath(base, template.attrib["initialization"])),
        segments=tuple(str(PurePosixPath(base, media.replace("$Number$", str(first + n)))) for n in range(len(spans))),
        timescale=timescale,
        spans=tuple(spans),
    )


def _lines(folder: Path, path: str) -> list[str]:
    try:
        lines = [line.strip() for line in (folder / path).read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise MalformedPlaylist(f"{path}: {error}") from error
    lines = [line for line in lines if line and not line.startswith("##")]
    if not lines or lines[0] != "#EXTM3U":
        raise MalformedPlaylist(f"{path} is no playlist")
    return lines


def _attributes(line: str) -> dict[str, str]:
    return {key: value.strip('"') for key, value in _ATTRIBUTE.findall(line.partition(":")[2])}


def _resolve(playlist: str, uri: str) -> str:
    """A relative URI as a path within the package; one that leads out of it is refused."""
    parts: list[str] = list(PurePosixPath(playlist).parent.parts)
    for part in PurePosixPath(uri).parts:
        if part == "..":
            if not parts:
                raise MalformedPlaylist(f"{playlist} names {uri}, which is outside of the package")
            parts.pop()
        else:
            parts.append(part)
    if uri.startswith("/") or "://" in uri:
        raise MalformedPlaylist(f"{playlist} names {uri}, which is not relative")
    return "/".join(parts)
