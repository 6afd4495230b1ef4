"""Tracks into Shaka Packager's arguments, and where its output lies. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from vodpress.domain.plan import Plan
from vodpress.ports import TrackInput

MASTER = "hls/master.m3u8"
MANIFEST = "dash/manifest.mpd"
RAW_MASTER = "master.m3u8"
"""Where the packager is made to write the master playlist; moved to `MASTER` afterwards."""

INPUTS = ".inputs"

_UP = "../"  # from `hls/` and `dash/` to what they share
_AUDIO_GROUP = "audio"


def input_path(name: str) -> str:
    """Where a rendition is found while the packager runs: a path that needs no quoting, which it does not know."""
    return f"{INPUTS}/{name}.mp4"


def init_path(name: str) -> str:
    """The initialisation segment of a rendition."""
    return f"media/{name}/init.mp4"


def segment_path(name: str, number: int | str) -> str:
    """A media segment of a rendition; numbers start at 1."""
    return f"media/{name}/{number}.m4s"


def playlist_path(name: str) -> str:
    """The HLS media playlist of a rendition."""
    return f"hls/{name}.m3u8"


def keyframe_playlist_path(name: str) -> str:
    """The HLS I-frame playlist of a video rendition."""
    return f"hls/{name}-iframes.m3u8"


def arguments(tracks: Sequence[TrackInput], plan: Plan) -> list[str]:
    """One call for everything; run in the output folder, so that the paths it writes down are relative to it."""
    duration = _rounded_down(plan.segment_seconds)
    return [
        *(_stream(track) for track in tracks),
        "--segment_duration", duration,
        "--fragment_duration", duration,
        "--hls_master_playlist_output", RAW_MASTER,
        "--hls_playlist_type", "VOD",
        "--hls_base_url", _UP,
        "--mpd_output", MANIFEST,
        "--generate_static_live_mpd",
    ]  # fmt: skip


def correct_master(text: str) -> str:
    """The master playlist lies beside the others: it needs no detour to them."""
    return text.replace(f"{_UP}hls/", "")


def correct_manifest(text: str) -> str:
    """The MPD's paths start one folder up. (The packager percent-encodes a base URL that says so.)"""
    return text.replace("<Period", f"<BaseURL>{_UP}</BaseURL>\n  <Period", 1)


def _stream(track: TrackInput) -> str:
    parts = {
        "in": input_path(track.name),
        "stream": "video" if track.rung else "audio",
        "init_segment": init_path(track.name),
        "segment_template": segment_path(track.name, "$Number$"),
        "playlist_name": playlist_path(track.name),
    }
    if track.rung is not None:
        parts["iframe_playlist_name"] = keyframe_playlist_path(track.name)
    else:
        parts |= {"hls_group_id": _AUDIO_GROUP, "hls_name": track.name}
        if track.audio is not None and track.audio.language:
            parts["language"] = track.audio.language
    return ",".join(f"{key}={value}" for key, value in parts.items())


def _rounded_down(seconds: Fraction) -> str:
    """Microseconds. Never more than a segment's length: a border that is missed by a tick would move by a whole GOP."""
    ticks = floor(seconds * 1_000_000)
    return f"{ticks // 1_000_000}.{ticks % 1_000_000:06d}"
