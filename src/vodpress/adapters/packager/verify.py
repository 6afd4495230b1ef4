"""A package is what it says: every file there and none besides, every frame in its segment, all rungs aligned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from vodpress.adapters.isobmff import MalformedMp4, Track
from vodpress.adapters.packager import command
from vodpress.adapters.packager.playlists import (
    MalformedPlaylist,
    MediaPlaylist,
    Representation,
    read_manifest,
    read_master_playlist,
    read_media_playlist,
)
from vodpress.adapters.packager.rates import Rate, measure
from vodpress.adapters.packager.segments import Keyframe, Segment, read_header, read_segment
from vodpress.domain.failure import Failure
from vodpress.domain.plan import Plan
from vodpress.ports import PackagedTrack, PackageResult, TrackInput

_EXTINF_ERROR_SECONDS = Fraction(501, 1_000_000)  # the packager rounds to three decimals


def verify_package(tracks: Sequence[TrackInput], plan: Plan, folder: Path) -> PackageResult:
    """Look into everything that a package names.

    Raises:
        Failure: `output_unverified`, saying what is wrong with which file.
    """
    try:
        manifest = read_manifest(folder, command.MANIFEST)
        representations = {entry.init: entry for entry in manifest.representations}
        packaged = tuple(_verify_track(track, plan, folder, representations) for track in tracks)
        playlists = read_master_playlist(folder, command.MASTER)
    except (MalformedMp4, MalformedPlaylist, OSError) as error:
        raise Failure("output_unverified", detail=str(error), subject="package") from error
    _require_length(command.MANIFEST, manifest.duration_seconds, plan)
    if len(manifest.representations) != len(tracks):
        raise _wrong(command.MANIFEST, f"{len(tracks)} representations", f"{len(manifest.representations)}")
    named = {command.MASTER, command.MANIFEST, *(path for track in packaged for path in track.files)}
    expected = sorted(path for path in named if path.startswith("hls/") and path != command.MASTER)
    if sorted(playlists) != expected:
        raise _wrong(command.MASTER, f"the playlists {expected}", f"{sorted(playlists)}")
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    if there != named:
        raise _wrong(
            "package", "the files that are named", f"missing {sorted(named - there)}, more {sorted(there - named)}"
        )
    return PackageResult(hls=command.MASTER, dash=command.MANIFEST, tracks=packaged, files=tuple(sorted(named)))


@dataclass(frozen=True, slots=True)
class _Span:
    """What is kept of a segment once it was looked into, so that hours of video need little memory."""

    bytes: int
    seconds: Fraction
    end: int
    keyframes: tuple[Keyframe, ...]


def _verify_track(
    track: TrackInput, plan: Plan, folder: Path, representations: Mapping[str, Representation]
) -> PackagedTrack:
    path = command.playlist_path(track.name)
    playlist = read_media_playlist(folder, path)
    representation = representations.get(command.init_path(track.name))
    if playlist.init != command.init_path(track.name) or representation is None:
        raise _wrong(path, f"the initialisation segment {command.init_path(track.name)}", playlist.init)
    if playlist.segments != representation.segments:
        raise _wrong(path, "the segments that the MPD names", f"{len(playlist.segments)} others")
    header = read_header(folder, playlist.init)
    spans = _verify_segments(track, plan, folder, playlist, representation, header)
    length = Fraction(spans[-1].end, header.timescale)
    _require_length(track.name, length, plan)
    files = [path, playlist.init, *playlist.segments]
    if track.rung is not None:
        files.append(_verify_keyframe_playlist(track.name, folder, playlist, spans, header, plan))
    rate = _verify_rate(path, spans, representation)
    return PackagedTrack(
        name=track.name,
        codecs=representation.codecs,
        bandwidth=rate.peak,
        average_bandwidth=rate.average,
        duration_seconds=length,
        files=tuple(files),
    )


def _verify_segments(
    track: TrackInput,
    plan: Plan,
    folder: Path,
    playlist: MediaPlaylist,
    representation: Representation,
    header: Track,
) -> list[_Span]:
    """Look into every segment: contiguous, its frames all there, and as HLS and DASH state it."""
    if representation.timescale != header.timescale:
        raise _wrong(command.MANIFEST, f"{header.timescale} ticks a second", str(representation.timescale))
    spans: list[_Span] = []
    decode_time = 0
    for number, path in enumerate(playlist.segments):
        segment = read_segment(folder, path, header)
        if segment.decode_start != decode_time:
            raise _wrong(path, f"decode time {decode_time}", str(segment.decode_start))
        decode_time = segment.decode_end
        if track.rung is not None:
            _require_frames(path, number, segment, header, plan)
        length = segment.end - segment.start
        if representation.spans[number] != (segment.start, length):
            raise _wrong(command.MANIFEST, f"{path} at {(segment.start, length)}", str(representation.spans[number]))
        seconds = Fraction(length, header.timescale)
        stated = playlist.durations_seconds[number]
        if abs(stated - seconds) > _EXTINF_ERROR_SECONDS:
            raise _wrong(command.playlist_path(track.name), f"{path} of {float(seconds):.4f} s", f"{float(stated):.4f}")
        spans.append(_Span(segment.bytes, seconds, segment.end, segment.keyframes))
    if track.rung is not None and len(spans) * plan.segment_frames < plan.frames:
        raise _wrong(track.name, f"{plan.frames} frames", f"at most {len(spans) * plan.segment_frames}")
    return spans


def _require_frames(path: str, number: int, segment: Segment, header: Track, plan: Plan) -> None:
    """The segment holds exactly its frames of the plan and starts with a keyframe; so all rungs are aligned."""
    first = number * plan.segment_frames
    wanted = range(first, min(first + plan.segment_frames, plan.frames))
    ticks = header.timescale / plan.frame_rate
    if list(segment.times) != [frame * ticks for frame in wanted]:
        found = f"{len(segment.times)} from {float(segment.times[0] / ticks):g}"
        raise _wrong(path, f"{len(wanted)} frames from {first}", found)
    keyframes = [keyframe.time for keyframe in segment.keyframes]
    if not segment.starts_with_keyframe or keyframes != [frame * ticks for frame in wanted[:: plan.gop_frames]]:
        raise _wrong(path, f"a fragment with a keyframe every {plan.gop_frames} frames", f"some at {keyframes[:4]}")


def _require_length(what: str, length_seconds: Fraction, plan: Plan) -> None:
    if abs(length_seconds - plan.duration_seconds) > 1 / plan.frame_rate:
        raise _wrong(what, f"{float(plan.duration_seconds):.4f} s", f"{float(length_seconds):.4f} s")


def _verify_keyframe_playlist(
    name: str, folder: Path, playlist: MediaPlaylist, spans: Sequence[_Span], header: Track, plan: Plan
) -> str:
    """The I-frame playlist names every keyframe: where it lies, and how long until the next."""
    path = command.keyframe_playlist_path(name)
    stated = read_media_playlist(folder, path)
    keyframes = [keyframe for span in spans for keyframe in span.keyframes]
    segments = [segment for segment, span in zip(playlist.segments, spans, strict=True) for _ in span.keyframes]
    if stated.init != playlist.init or list(stated.segments) != segments:
        raise _wrong(path, f"{len(segments)} keyframes in their segments", f"{len(stated.segments)}, or elsewhere")
    ranges = [(keyframe.offset, keyframe.length) for keyframe in keyframes]
    if list(stated.ranges) != ranges:
        raise _wrong(path, f"the keyframes at {ranges[:4]} …", f"{stated.ranges[:4]} …")
    ends = [*(keyframe.time for keyframe in keyframes[1:]), int(plan.duration_seconds * header.timescale)]
    for keyframe, end, seconds in zip(keyframes, ends, stated.durations_seconds, strict=True):
        length = Fraction(end - keyframe.time, header.timescale)
        if abs(seconds - length) > _EXTINF_ERROR_SECONDS:
            raise _wrong(path, f"a keyframe for {float(length):.4f} s", f"{float(seconds):.4f} s")
    return path


def _verify_rate(path: str, spans: Sequence[_Span], representation: Representation) -> Rate:
    rate = measure([span.bytes for span in spans], [span.seconds for span in spans])
    if representation.bandwidth != rate.peak:
        raise _wrong(command.MANIFEST, f"a bandwidth of {rate.peak} for {path}", str(representation.bandwidth))
    return rate


def _wrong(what: str, expected: str, found: str) -> Failure:
    return Failure("output_unverified", detail=f"{what}: expected {expected}, found {found}", subject=what)
