"""The packager: one call of Shaka Packager for HLS and DASH, then a look into everything it made."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path, PurePosixPath

from vodpress.adapters.packager import command
from vodpress.adapters.packager.playlists import MalformedPlaylist, Representation, read_manifest
from vodpress.adapters.packager.rates import Rate, measure, state_in_manifest, state_in_master
from vodpress.adapters.packager.verify import verify_package
from vodpress.adapters.process import ToolExit, run_tool
from vodpress.adapters.programs import Binary
from vodpress.domain.failure import Failure
from vodpress.domain.plan import Plan
from vodpress.ports import PackageResult, TrackInput

_SLOWEST_MEDIA_SPEED = 5.0  # it copies, so even a slow disk does a minute of media in seconds
_START_SECONDS = 60.0
_WRITE_FAILED = ("running out of disk space", "Fail to write to file")  # it does not pass on why


class ShakaPackager:
    """`ports.Packager` by Shaka Packager.

    Args:
        ceiling_factor: how many times the expected time a run may take.
        nice: added to the program's niceness.
    """

    def __init__(self, binary: Binary, *, ceiling_factor: float, nice: int) -> None:
        self._binary = binary
        self._ceiling_factor = ceiling_factor
        self._nice = nice

    def versions(self) -> Mapping[str, str]:
        """See `ports.Packager.versions`."""
        return {"shaka-packager": self._binary.version, "package": command.LAYOUT}

    def command(self, plan: Plan) -> Sequence[str]:
        """See `ports.Packager.command`."""
        tracks = [TrackInput(rung.name, Path(rung.name), rung, None) for rung in plan.rungs]
        if plan.audio is not None:
            tracks.append(TrackInput(plan.audio.name, Path(plan.audio.name), None, plan.audio))
        return ["packager", *command.arguments(tracks, plan)]

    async def package(self, tracks: Sequence[TrackInput], plan: Plan, folder: Path) -> PackageResult:
        """See `ports.Packager.package`."""
        expected = _START_SECONDS + float(plan.duration_seconds) * len(tracks) / _SLOWEST_MEDIA_SPEED
        await asyncio.to_thread(_link_inputs, tracks, folder)
        ended = await run_tool(
            [self._binary.path, *command.arguments(tracks, plan)],
            tool="packager",
            cwd=folder,
            ceiling_seconds=self._ceiling_factor * expected,
            nice=self._nice,
        )
        if not ended.succeeded:
            raise _failure(ended)
        await asyncio.to_thread(_arrange, tracks, folder)
        return await asyncio.to_thread(verify_package, tracks, plan, folder)


def _link_inputs(tracks: Sequence[TrackInput], folder: Path) -> None:
    (folder / command.INPUTS).mkdir()
    for track in tracks:
        (folder / command.input_path(track.name)).symlink_to(track.path.absolute())


def _arrange(tracks: Sequence[TrackInput], folder: Path) -> None:
    """Remove the links, bring the master playlist to its place, and correct what it and the MPD say."""
    shutil.rmtree(folder / command.INPUTS)
    master, manifest = folder / command.MASTER, folder / command.MANIFEST
    try:
        manifest.write_text(command.correct_manifest(manifest.read_text()))
        rates = {
            entry.init: _measured(entry, folder) for entry in read_manifest(folder, command.MANIFEST).representations
        }
        manifest.write_text(state_in_manifest(manifest.read_text(), rates))
        audio = sum((rates[command.init_path(track.name)] for track in tracks if track.audio), start=Rate(0, 0))
        variants = {
            PurePosixPath(command.playlist_path(track.name)).name: rates[command.init_path(track.name)]
            for track in tracks
        }
        text = command.correct_master((folder / command.RAW_MASTER).read_text())
        master.write_text(state_in_master(text, variants, audio))
        (folder / command.RAW_MASTER).unlink()
    except (OSError, MalformedPlaylist, KeyError) as error:
        raise Failure("output_unverified", detail=f"{type(error).__name__}: {error}", subject="package") from error


def _measured(entry: Representation, folder: Path) -> Rate:
    return measure(
        [(folder / segment).stat().st_size for segment in entry.segments],
        [Fraction(length, entry.timescale) for _, length in entry.spans],
    )


def _failure(ended: ToolExit) -> Failure:
    if any(words in ended.stderr_tail for words in _WRITE_FAILED):
        return Failure("disk_full", detail=ended.describe())
    if ended.kernel_killed_for_memory:
        return Failure("out_of_memory", detail=ended.describe())
    return Failure("tool_crashed", "The packager failed.", detail=ended.describe())
