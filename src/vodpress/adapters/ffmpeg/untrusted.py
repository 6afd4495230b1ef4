"""How a file that a stranger made is opened: only as a local file, only as a container of video, within limits."""

from __future__ import annotations

from pathlib import Path

CONTAINERS = (
    "mov", "matroska,webm", "mpegts", "avi", "mpeg", "ogg", "flv", "asf", "mxf", "gxf", "dv", "rm", "ivf", "nut", "wtv",
    "mp3", "wav", "aac", "flac",
)  # fmt: skip
"""FFmpeg demuxers that may be used. Playlists (HLS, DASH, ffconcat) are not among them: they make a reader open further
files and addresses. Pure audio is, so that it can be told apart from nonsense."""

MAX_PIXELS = 8192 * 4320
_MAX_ALLOC_BYTES = 512 << 20
_MAX_STREAMS = 32
_ANALYSE = "20M"

ALLOCATION = ["-max_alloc", str(_MAX_ALLOC_BYTES)]
"""The largest single piece of memory; goes before everything else."""

DEMUXER = [
    "-protocol_whitelist", "file",
    "-format_whitelist", ",".join(CONTAINERS),
    "-max_streams", str(_MAX_STREAMS),
    "-probesize", _ANALYSE,
    "-analyzeduration", _ANALYSE,
]  # fmt: skip
"""Goes before `-i`."""

DECODER = ["-max_pixels", str(MAX_PIXELS)]
"""Goes before `-i`."""


def address(path: str | Path) -> str:
    """The file as an address that cannot be mistaken for an option or another protocol."""
    return f"file:{path}"
