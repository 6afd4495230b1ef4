"""The manifest: the small document whose presence makes a video visible. It lists every file with its checksum."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

from vodpress.domain.media import Probe
from vodpress.domain.plan import AudioPlan, RungPlan
from vodpress.domain.publication import Contents

SCHEMA = "vodpress.manifest/1"
SCHEMA_FILE = "manifest-1.schema.json"
"""The JSON Schema of this document, in `vodpress/schemas/`."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file of a version. `path` is relative to the manifest."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class TrackFacts:
    """What packaging made of one rendition. Bandwidths in bits a second; `frames` counts pictures or AAC frames."""

    name: str
    codecs: str
    bandwidth: int
    average_bandwidth: int
    frames: int
    files: tuple[FileFacts, ...]


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """Poster and storyboard."""

    poster: str
    storyboard: str
    files: tuple[FileFacts, ...]


@dataclass(frozen=True, slots=True)
class PlaybackFacts:
    """Where players begin, and the files that belong to no rendition."""

    hls: str
    dash: str
    files: tuple[FileFacts, ...]


def build(
    *,
    asset: str,
    version: int,
    source_sha256: str,
    probe: Probe,
    plan_hash: str,
    ladder: str,
    duration_seconds: Fraction,
    frame_rate: Fraction,
    renditions: Sequence[tuple[RungPlan, TrackFacts]],
    audio: Sequence[tuple[AudioPlan, TrackFacts]],
    images: ImageFacts | None,
    missing: Mapping[str, str],
    playback: PlaybackFacts,
    created_at: str,
) -> dict[str, Any]:
    """The document.

    Args:
        frame_rate: that of every video rendition.
        missing: renditions of the plan that this version lacks, and why: `pending` or `waived`.
        created_at: ISO 8601, UTC.

    Raises:
        ValueError: a file is listed twice, or by a path that leads out of the version's folder; or players are sent to
            a file that is not listed.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "asset": asset,
        "version": version,
        "source": _source(source_sha256, probe),
        "plan_hash": plan_hash,
        "ladder": ladder,
        "duration_seconds": _seconds(duration_seconds),
        "renditions": [
            {
                "name": facts.name,
                "width": rung.width,
                "height": rung.height,
                "frame_rate": str(frame_rate),
                "codecs": facts.codecs,
                "bandwidth": facts.bandwidth,
                "average_bandwidth": facts.average_bandwidth,
                "frames": facts.frames,
                "required": rung.required,
                "files": _files(facts.files),
            }
            for rung, facts in renditions
        ],
        "audio": [
            {
                "name": facts.name,
                "codecs": facts.codecs,
                "bandwidth": facts.bandwidth,
                "average_bandwidth": facts.average_bandwidth,
                "channels": plan.channels,
                "sample_rate_hz": plan.sample_rate_hz,
                "language": plan.language,
                "files": _files(facts.files),
            }
            for plan, facts in audio
        ],
        "images": {"poster": images.poster, "storyboard": images.storyboard, "files": _files(images.files)}
        if images
        else {},
        "missing": [{"name": name, "reason": reason} for name, reason in missing.items()],
        "playback": {"hls": playback.hls, "dash": playback.dash, "files": _files(playback.files)},
        "created_at": created_at,
    }
    _require_plain([path for path, _ in files_of(document)])
    _require_listed(document["playback"], "hls", "dash")
    if images:
        _require_listed(document["images"], "poster", "storyboard")
    return document


def to_json(document: Mapping[str, Any]) -> bytes:
    """The document as it is stored: the same document gives the same bytes."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def files_of(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every file that the document lists, as `(path, {"bytes", "sha256"})`."""
    for group in (*document["renditions"], *document["audio"], document["images"], document["playback"]):
        for entry in group.get("files", ()):
            yield entry["path"], {"bytes": entry["bytes"], "sha256": entry["sha256"]}


def contents_of(document: Mapping[str, Any]) -> Contents:
    """What a document says that its version holds."""
    missing = document.get("missing", ())
    return Contents(
        renditions=tuple(entry["name"] for entry in (*document["renditions"], *document["audio"])),
        waived=tuple(entry["name"] for entry in missing if entry["reason"] == "waived"),
        images=bool(document["images"]),
    )


def _source(sha256: str, probe: Probe) -> dict[str, Any]:
    video = probe.video
    return {
        "sha256": sha256,
        "bytes": probe.bytes,
        "container": probe.container,
        "duration_seconds": _seconds(probe.duration_seconds),
        "width": video.width,
        "height": video.height,
        "frame_rate": str(video.declared_frame_rate),
        "variable_frame_rate": video.is_variable_frame_rate,
        "rotation_degrees": video.rotation_degrees,
        "video_codec": video.codec,
        "audio_codec": probe.audio[0].codec if probe.audio else None,
    }


def _files(files: Iterable[FileFacts]) -> list[dict[str, Any]]:
    return [{"path": file.path, "bytes": file.bytes, "sha256": file.sha256} for file in files]


def _seconds(value: Fraction) -> float:
    return round(float(value), 6)


def _require_plain(paths: Sequence[str]) -> None:
    for path in paths:
        pure = PurePosixPath(path)
        if pure.is_absolute() or not pure.parts or ".." in pure.parts or str(pure) != path or not path.isprintable():
            raise ValueError(f"{path!r} is no plain relative path")
    if len(set(paths)) != len(paths):
        raise ValueError(f"listed twice: {sorted({path for path in paths if paths.count(path) > 1})}")


def _require_listed(group: Mapping[str, Any], *keys: str) -> None:
    listed = {file["path"] for file in group["files"]}
    for key in keys:
        if group[key] not in listed:
            raise ValueError(f"{key} is {group[key]!r}, which is not among its files")
