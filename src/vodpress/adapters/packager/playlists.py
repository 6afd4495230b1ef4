"""Reads the playlists and the MPD that were just written: what they name, and how long they say it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

_MPD = "{urn:mpeg:dash:schema:mpd:2011}"
_ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"]*"|[^,]*)')


class MalformedPlaylist(ValueError):
    """A playlist or MPD is not what it should be."""


@dataclass(frozen=True, slots=True)
class MediaPlaylist:
    """An HLS media playlist. Paths are relative to the package; durations as `EXTINF` states them, in seconds."""

    init: str
    segments: tuple[str, ...]
    durations_seconds: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Representation:
    """A DASH representation; `spans` are start and length of each segment in ticks of `timescale`."""

    codecs: str
    init: str
    segments: tuple[str, ...]
    timescale: int
    spans: tuple[tuple[int, int], ...]


def read_media_playlist(folder: Path, path: str) -> MediaPlaylist:
    """Raises `MalformedPlaylist`."""
    lines = _lines(folder, path)
    if lines[-1] != "#EXT-X-ENDLIST":
        raise MalformedPlaylist(f"{path} does not end with EXT-X-ENDLIST")
    init, segments, durations = "", [], []
    for line in lines:
        if line.startswith("#EXT-X-MAP:"):
            init = _resolve(path, _attributes(line)["URI"])
        elif line.startswith("#EXTINF:"):
            durations.append(Fraction(line.removeprefix("#EXTINF:").split(",")[0]))
        elif not line.startswith("#"):
            segments.append(_resolve(path, line))
    if not init or not segments or len(segments) != len(durations):
        raise MalformedPlaylist(f"{path} has {len(segments)} segments and {len(durations)} durations")
    return MediaPlaylist(init=init, segments=tuple(segments), durations_seconds=tuple(durations))


def read_master_playlist(folder: Path, path: str) -> tuple[str, ...]:
    """The playlists that a master playlist names. Raises `MalformedPlaylist`."""
    named = []
    for line in _lines(folder, path):
        if line.startswith(("#EXT-X-MEDIA:", "#EXT-X-I-FRAME-STREAM-INF:")):
            named.append(_resolve(path, _attributes(line)["URI"]))
        elif not line.startswith("#"):
            named.append(_resolve(path, line))
    return tuple(named)


def read_manifest(folder: Path, path: str) -> tuple[Representation, ...]:
    """The representations of an MPD with a segment timeline. Raises `MalformedPlaylist`."""
    try:
        root = ElementTree.parse(folder / path).getroot()  # noqa: S314 - our own packager wrote it this moment
        if root.get("type") != "static":
            raise MalformedPlaylist(f"{path} is not static")
        base = _resolve(path, root.findtext(f"{_MPD}BaseURL", ""))
        return tuple(_representation(element, base) for element in root.iter(f"{_MPD}Representation"))
    except (ElementTree.ParseError, OSError, KeyError, TypeError, AttributeError) as error:
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
    first = int(template.get("startNumber", "1"))
    media = template.attrib["media"]
    return Representation(
        codecs=element.attrib["codecs"],
        init=str(PurePosixPath(base, template.attrib["initialization"])),
        segments=tuple(str(PurePosixPath(base, media.replace("$Number$", str(first + n)))) for n in range(len(spans))),
        timescale=int(template.attrib["timescale"]),
        spans=tuple(spans),
    )


def _lines(folder: Path, path: str) -> list[str]:
    try:
        lines = [line.strip() for line in (folder / path).read_text().splitlines()]
    except OSError as error:
        raise MalformedPlaylist(f"{path}: {error.strerror}") from error
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
