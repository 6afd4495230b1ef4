"""A package is what it says: every file there and none besides, every frame in its segment, all rungs aligned."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from vodpress.adapters.isobmff import Fragment, MalformedMp4, Track, read_fragments, read_track
from vodpress.adapters.packager import command
from vodpress.adapters.packager.playlists import (
    MalformedPlaylist,
    MediaPlaylist,
    Representation,
    read_manifest,
    read_master_playlist,
    read_media_playlist,
)
from vodpress.domain.failure import Failure
from vodpress.domain.plan import Plan
from vodpress.ports import PackagedTrack, PackageResult, TrackInput

_EXTINF_ERROR_SECONDS = Fraction(1, 1000)  # the packager writes three decimals


def verify_package(tracks: Sequence[TrackInput], plan: Plan, folder: Path) -> PackageResult:
    """Look into everything that a package names.

    Raises:
        Failure: `output_unverified`, saying what is wrong with which file.
    """
    try:
        representations = {entry.init: entry for entry in read_manifest(folder, command.MANIFEST)}
        packaged = tuple(_verify_track(track, plan, folder, representations) for track in tracks)
        named = {command.MASTER, command.MANIFEST, *(path for track in packaged for path in track.files)}
        playlists = read_master_playlist(folder, command.MASTER)
    except (MalformedMp4, MalformedPlaylist, OSError) as error:
        raise Failure("output_unverified", detail=str(error), subject="package") from error
    expected = {path for path in named if path.startswith("hls/") and path != command.MASTER}
    if set(playlists) != expected:
        raise _wrong(command.MASTER, f"the playlists {sorted(expected)}", f"{sorted(playlists)}")
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    if there != named:
        raise _wrong(
            "package", "the files that are named", f"missing {sorted(named - there)}, more {sorted(there - named)}"
        )
    return PackageResult(hls=command.MASTER, dash=command.MANIFEST, tracks=packaged, files=tuple(sorted(named)))


def _verify_track(
    track: TrackInput, plan: Plan, folder: Path, representations: dict[str, Representation]
) -> PackagedTrack:
    path = command.playlist_path(track.name)
    playlist = read_media_playlist(folder, path)
    representation = representations.get(command.init_path(track.name))
    if playlist.init != command.init_path(track.name) or representation is None:
        raise _wrong(path, f"the initialisation segment {command.init_path(track.name)}", playlist.init)
    if playlist.segments != representation.segments:
        raise _wrong(path, "the segments that the MPD names", f"{len(playlist.segments)} others")
    header = read_track(folder / playlist.init)
    segments = [list(read_fragments(folder / segment, header)) for segment in playlist.segments]
    _require_contiguous(track.name, segments)
    if track.rung is not None:
        _require_frames(track.name, segments, header, plan)
    length = Fraction(sum(_length(fragments) for fragments in segments), header.timescale)
    if abs(length - plan.duration_seconds) > 1 / plan.frame_rate:
        raise _wrong(track.name, f"{float(plan.duration_seconds):.4f} s", f"{float(length):.4f} s")
    _require_stated(path, playlist, representation, segments, header)
    files = [path, playlist.init, *playlist.segments]
    if track.rung is not None:
        files.append(_verify_keyframe_playlist(track.name, folder, playlist))
    peak, average = _bandwidths(folder, playlist, segments, header)
    return PackagedTrack(
        name=track.name,
        codecs=representation.codecs,
        bandwidth=peak,
        average_bandwidth=average,
        duration_seconds=length,
        files=tuple(files),
    )


def _require_contiguous(name: str, segments: Sequence[Sequence[Fragment]]) -> None:
    at = 0
    for number, fragments in enumerate(segments, start=1):
        if not fragments:
            raise _wrong(command.segment_path(name, number), "samples", "none")
        for fragment in fragments:
            if fragment.decode_time != at:
                raise _wrong(command.segment_path(name, number), f"decode time {at}", str(fragment.decode_time))
            at += sum(sample.duration for sample in fragment.samples)


def _require_frames(name: str, segments: Sequence[Sequence[Fragment]], header: Track, plan: Plan) -> None:
    """Each segment holds exactly its frames of the plan and starts with a keyframe; so all rungs are aligned."""
    for number, fragments in enumerate(segments):
        samples = [sample for fragment in fragments for sample in fragment.samples]
        first = number * plan.segment_frames
        wanted = range(first, min(first + plan.segment_frames, plan.frames))
        frames = sorted(sample.pts * plan.frame_rate / header.timescale for sample in samples)
        if frames != list(wanted):
            found = f"{len(frames)} from {float(frames[0]):g}" if frames else "none"
            raise _wrong(command.segment_path(name, number + 1), f"{len(wanted)} frames from {first}", found)
        if not samples[0].sync:
            raise _wrong(command.segment_path(name, number + 1), "a keyframe at its start", "none")
    last = len(segments) * plan.segment_frames
    if last < plan.frames:
        raise _wrong(name, f"{plan.frames} frames", f"{last}")


def _require_stated(
    path: str,
    playlist: MediaPlaylist,
    representation: Representation,
    segments: Sequence[Sequence[Fragment]],
    header: Track,
) -> None:
    """What HLS and DASH say of each segment's place in time is what is in it."""
    at = 0
    for number, (fragments, stated, span) in enumerate(
        zip(segments, playlist.durations_seconds, representation.spans, strict=True), start=1
    ):
        length = _length(fragments)
        if abs(stated - Fraction(length, header.timescale)) > _EXTINF_ERROR_SECONDS:
            raise _wrong(path, f"segment {number} of {length / header.timescale:.4f} s", f"{float(stated):.4f} s")
        if representation.timescale != header.timescale or span != (at, length):
            raise _wrong(command.MANIFEST, f"segment {number} of {path} at {(at, length)}", str(span))
        at += length


def _verify_keyframe_playlist(name: str, folder: Path, playlist: MediaPlaylist) -> str:
    path = command.keyframe_playlist_path(name)
    keyframes = read_media_playlist(folder, path)
    if keyframes.init != playlist.init or not set(keyframes.segments) <= set(playlist.segments):
        raise _wrong(path, "only the rendition's own segments", "others")
    return path


def _bandwidths(
    folder: Path, playlist: MediaPlaylist, segments: Sequence[Sequence[Fragment]], header: Track
) -> tuple[int, int]:
    """Highest and mean bits a second, over segments (RFC 8216, 4.3.4.2). The last one is short and says little."""
    sizes = [(folder / segment).stat().st_size * 8 for segment in playlist.segments]
    lengths = [Fraction(_length(fragments), header.timescale) for fragments in segments]
    full = slice(None, -1) if len(sizes) > 1 else slice(None)
    peak = max(size / length for size, length in zip(sizes[full], lengths[full], strict=True))
    average = sum(sizes) / sum(lengths)
    return round(max(peak, average)), round(average)


def _length(fragments: Sequence[Fragment]) -> int:
    return sum(sample.duration for fragment in fragments for sample in fragment.samples)


def _wrong(what: str, expected: str, found: str) -> Failure:
    return Failure("output_unverified", detail=f"{what}: expected {expected}, found {found}", subject=what)
