"""What an FFmpeg was built with, compared with what vodpress asks of it."""

from __future__ import annotations

from dataclasses import dataclass

from vodpress.adapters.process import run_tool
from vodpress.adapters.programs import Binary
from vodpress.codecs import AUDIO, VIDEO

_LIST_SECONDS = 30.0
_FILTERS = ("fps", "trim", "tpad", "split", "scale", "setsar", "tile", "aresample", "apad", "atrim", "bwdif")
_OPTIONAL_FILTERS = ("zscale", "tonemap")


@dataclass(frozen=True, slots=True)
class Missing:
    """Encoders and filters that are not there. Without the optional ones, HDR sources fail."""

    required: tuple[str, ...]
    optional: tuple[str, ...]


async def missing_capabilities(ffmpeg: Binary) -> Missing:
    """Ask FFmpeg what it has. Raises what `run_tool` raises."""
    encoders = await _names(ffmpeg, "-encoders")
    filters = await _names(ffmpeg, "-filters")
    wanted = [module.ENCODER for module in (*VIDEO.values(), *AUDIO.values())] + ["mjpeg"]
    return Missing(
        required=tuple(name for name in wanted if name not in encoders)
        + tuple(name for name in _FILTERS if name not in filters),
        optional=tuple(name for name in _OPTIONAL_FILTERS if name not in filters),
    )


async def _names(ffmpeg: Binary, option: str) -> set[str]:
    names: set[str] = set()

    async def keep(line: bytes) -> None:
        parts = line.decode(errors="replace").split()
        if len(parts) >= 2:
            names.add(parts[1])

    await run_tool([ffmpeg.path, "-hide_banner", option], tool="ffmpeg", on_line=keep, ceiling_seconds=_LIST_SECONDS)
    return names
