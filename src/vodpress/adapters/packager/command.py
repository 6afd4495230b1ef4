"""Tracks into Shaka Packager's arguments, and where its output lies. Pure."""

from __future__ import annotations

import re
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
LAYOUT = "1"
"""What is done to the packager's output; part of the plan hash, to be raised with every change that shows in a file."""

_BANDWIDTHS = re.compile(r"\bBANDWIDTH=(\d+),(?=AVERAGE-BANDWIDTH=(\d+))")
_UP = "../"  # from `hls/` and `dash/` to what they share
_AUDIO_GROUP = "audio"

# Two letters that the packager takes; it refuses to start for any other pair. Three letters pass, whatever they are.
_LANGUAGES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en "
    "eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv "
    "ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne "
    "ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st "
    "su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)


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
    """One call for everything; run in the output folder, so that the paths it writes down are relative to it.

    One thread and no wall clock, so that the same renditions give the same bytes: threads race for the numbers of the
    MPD's adaptation sets, and the clock is written into every header. One thread also needs half the CPU, and without
    its I/O cache a tenth of the memory.
    """
    duration = _rounded_down(plan.segment_seconds)
    return [
        *(_stream(track) for track in tracks),
        "--segment_duration", duration,
        "--fragment_duration", _rounded_down(plan.gop_frames / plan.frame_rate),
        "--hls_master_playlist_output", RAW_MASTER,
        "--hls_playlist_type", "VOD",
        "--hls_base_url", _UP,
        "--mpd_output", MANIFEST,
        "--generate_static_live_mpd",
        "--single_threaded",
        "--io_cache_size", "0",
        "--use_fake_clock_for_muxer",
    ]  # fmt: skip


def correct_master(text: str) -> str:
    """The master playlist lies beside the others: it needs no detour to them.

    The only sound is the one to play by default. And a highest rate is never below the mean: the packager leaves a
    short last segment out of the one and not of the other.
    """
    text = text.replace(f"{_UP}hls/", "").replace("DEFAULT=NO,AUTOSELECT=YES", "DEFAULT=YES,AUTOSELECT=YES", 1)
    return _BANDWIDTHS.sub(lambda found: f"BANDWIDTH={max(int(found[1]), int(found[2]))},", text)


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
        if track.audio is not None and (language := track.audio.language.lower()):
            parts |= {"language": language} if len(language) == 3 or language in _LANGUAGES.split() else {}
    return ",".join(f"{key}={value}" for key, value in parts.items())


def _rounded_down(seconds: Fraction) -> str:
    """Microseconds. Never more than a segment's length: a border that is missed by a tick would move by a whole GOP.

    Less is harmless: the packager cuts at the first keyframe at or behind a multiple of it.
    """
    ticks = floor(seconds * 1_000_000)
    return f"{ticks // 1_000_000}.{ticks % 1_000_000:06d}"
