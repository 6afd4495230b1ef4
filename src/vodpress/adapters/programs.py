"""Finds the programs that vodpress runs, in settings or in the wheels that bring them, and learns their versions."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vodpress.adapters.process import run_tool
from vodpress.domain.failure import Failure

_VERSION_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Binary:
    """A program that can be run. `version` changes whenever its output bytes might."""

    path: Path
    version: str


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a program says of itself: the version it names, and the whole text."""

    version: str
    text: bytes


def for_this_platform(names: Mapping[tuple[str, str], str]) -> str | None:
    """The name for this system and processor, from keys as `sys.platform` and `platform.machine` give them."""
    return names.get((sys.platform, platform.machine()))


def in_wheel(package: str, pattern: str | None, *, setting: str) -> Path:
    """The program that a Python package brings.

    Args:
        pattern: a path below the package's folder; may hold wildcards. `None` where there is none for this platform.
        setting: the environment variable that names another program, for the message.

    Raises:
        Failure: `tool_missing`.
    """
    found = importlib.util.find_spec(package)
    for root in (found.submodule_search_locations or ()) if found and pattern else ():
        for path in sorted(Path(root).glob(str(pattern))):
            if path.is_file() and path.suffix != ".md":
                return path
    raise Failure(
        "tool_missing",
        f"The Python package {package} brings no program for {sys.platform} on {platform.machine()}. "
        f"Install one and set {setting}.",
    )


async def introduce(path: Path, argument: str, pattern: bytes, *, tool: str) -> Introduction:
    """Ask a program for its version.

    Args:
        pattern: a regular expression for the text it prints; its first group is the version.

    Raises:
        Failure: `tool_missing`, also when it is another program or does not run here.
    """
    lines: list[bytes] = []

    async def keep(line: bytes) -> None:
        lines.append(line)

    ended = await run_tool([path, argument], tool=tool, on_line=keep, ceiling_seconds=_VERSION_SECONDS)
    text = b"\n".join(lines)
    named = re.search(pattern, text)
    if not ended.succeeded or named is None:
        raise Failure("tool_missing", f"{path} is no usable {tool}.", detail=ended.describe())
    return Introduction(version=named.group(1).decode(errors="replace"), text=text)
