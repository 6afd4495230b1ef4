"""The transcoder: slices, audio, joining and images by FFmpeg, each result looked into before it is returned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

from vodpress.adapters.ffmpeg import images, verify
from vodpress.adapters.ffmpeg.command import audio_command, plan_commands, slice_command
from vodpress.adapters.ffmpeg.failures import classify
from vodpress.adapters.ffmpeg.limits import RunLimits
from vodpress.adapters.ffmpeg.progress import ProgressReader
from vodpress.adapters.ffmpeg.stitch import join
from vodpress.adapters.ffmpeg.untrusted import ALLOCATION, DEMUXER, address
from vodpress.adapters.process import ToolExit, run_tool
from vodpress.adapters.programs import Binary
from vodpress.domain.failure import Failure
from vodpress.domain.media import Probe
from vodpress.domain.plan import AudioPlan, Plan, RungPlan, Slice
from vodpress.ports import EncodeReport, ImageSet, OnProgress, Progress, VerifiedFile

_CHECKED_SECONDS = 0.5
_LEAST_PRIORITY = 19


class FFmpegTranscoder:
    """`ports.Transcoder` by FFmpeg."""

    def __init__(self, *, ffmpeg: Binary, run: RunLimits) -> None:
        self._ffmpeg = ffmpeg
        self._run = run

    def versions(self) -> Mapping[str, str]:
        """See `ports.Transcoder.versions`."""
        return {"ffmpeg": self._ffmpeg.version}

    def commands(self, plan: Plan) -> Sequence[Sequence[str]]:
        """See `ports.Transcoder.commands`."""
        return [["ffmpeg", *arguments] for arguments in plan_commands(plan)]

    async def encode_slice(
        self,
        source: Path,
        plan: Plan,
        part: Slice,
        rungs: Sequence[RungPlan],
        folder: Path,
        on_progress: OnProgress,
        *,
        yields: bool = False,
    ) -> EncodeReport:
        """See `ports.Transcoder.encode_slice`."""
        paths = {rung.name: folder / f"{rung.name}.mp4" for rung in rungs}
        outputs = {name: str(path) for name, path in paths.items()}
        ended = await self._encode(
            slice_command(plan, part, rungs, str(source), outputs),
            ProgressReader(frame_rate=plan.frame_rate),
            total=part.frames / plan.frame_rate,
            pixels=sum(rung.width * rung.height for rung in rungs) * part.frames,
            on_progress=on_progress,
            yields=yields,
        )
        if not ended.succeeded:
            raise classify(ended, subject=f"slice {part.index}")
        return await _report(
            {
                rung.name: partial(
                    verify.verify_video, paths[rung.name], plan, rung, first_frame=part.first_frame, frames=part.frames
                )
                for rung in rungs
            },
            ended,
        )

    async def verify_slice(self, path: Path, plan: Plan, part: Slice, rung: RungPlan) -> VerifiedFile:
        """See `ports.Transcoder.verify_slice`."""
        return await asyncio.to_thread(
            verify.verify_video, path, plan, rung, first_frame=part.first_frame, frames=part.frames
        )

    async def encode_audio(
        self,
        source: Path,
        plan: Plan,
        audio: AudioPlan,
        folder: Path,
        on_progress: OnProgress,
        *,
        yields: bool = False,
    ) -> EncodeReport:
        """See `ports.Transcoder.encode_audio`."""
        path = folder / f"{audio.name}.mp4"
        ended = await self._encode(
            audio_command(plan, audio, str(source), str(path)),
            ProgressReader(frame_rate=None),
            total=plan.duration_seconds,
            pixels=0,
            on_progress=on_progress,
            yields=yields,
        )
        if not ended.succeeded:
            raise classify(ended, subject=audio.name)
        return await _report({audio.name: partial(verify.verify_audio, path, plan, audio)}, ended)

    async def stitch(self, parts: Sequence[Path], plan: Plan, output: Path) -> VerifiedFile:
        """See `ports.Transcoder.stitch`."""
        await asyncio.to_thread(join, parts, output)
        rung = plan.rung(output.stem)
        return await asyncio.to_thread(verify.verify_video, output, plan, rung, first_frame=0, frames=plan.frames)

    async def check_decodes(self, path: Path, plan: Plan, *, whole: bool) -> None:
        """See `ports.Transcoder.check_decodes`."""
        short = plan.duration_seconds <= 2 * _CHECKED_SECONDS
        opened = ["-threads", "1", *DEMUXER, "-i", address(path)]
        arguments = ["-nostdin", "-v", "error", "-xerror", *ALLOCATION]
        if whole or short:
            arguments += [*opened, "-map", "0"]
        else:
            arguments += ["-t", f"{_CHECKED_SECONDS:g}", *opened, "-sseof", f"-{_CHECKED_SECONDS:g}", *opened]
            arguments += ["-map", "0", "-map", "1"]
        ended = await run_tool(
            [self._ffmpeg.path, *arguments, "-f", "null", "-"],
            tool="ffmpeg",
            ceiling_seconds=self._run.ceiling(media_seconds=float(plan.duration_seconds)),
            nice=self._run.nice,
        )
        if ended.signal_number is not None:
            raise classify(ended, subject=path.name)
        if not ended.succeeded or ended.stderr_tail.strip():
            raise Failure(
                "output_unverified",
                "A finished rendition does not decode without errors.",
                detail=ended.describe(),
                subject=path.name,
            )

    async def thumbnails(self, source: Path, plan: Plan, probe: Probe, folder: Path) -> ImageSet:
        """See `ports.Transcoder.thumbnails`."""
        layout = images.lay_out(plan, width=probe.video.width, height=probe.video.height)
        (folder / images.STORYBOARD_FOLDER).mkdir(exist_ok=True)
        ended = await self._encode(
            images.command(plan, layout, str(source), str(folder)),
            ProgressReader(frame_rate=None),
            total=plan.duration_seconds,
            pixels=0,
            on_progress=_ignore,
        )
        if not ended.succeeded:
            raise classify(ended, subject="thumbnails")
        return await asyncio.to_thread(images.collect, layout, folder)

    async def _encode(
        self,
        arguments: Sequence[str],
        reader: ProgressReader,
        *,
        total: Fraction,
        pixels: int,
        on_progress: OnProgress,
        yields: bool = False,
    ) -> ToolExit:
        loop = asyncio.get_running_loop()
        begun = loop.time()

        async def on_line(line: bytes) -> bool:
            moved = reader.feed(line)
            if moved:
                speed = reader.done_seconds / max(loop.time() - begun, 1e-3)
                await on_progress(Progress(min(reader.done_seconds, float(total)), float(total), speed))
            return moved

        return await run_tool(
            [self._ffmpeg.path, *arguments],
            tool="ffmpeg",
            on_line=on_line,
            stall_seconds=self._run.stall_seconds,
            ceiling_seconds=self._run.ceiling(media_seconds=float(total), pixels=pixels),
            nice=_LEAST_PRIORITY if yields else self._run.nice,
        )


async def _report(checks: Mapping[str, Callable[[], VerifiedFile]], ended: ToolExit) -> EncodeReport:
    outputs: dict[str, VerifiedFile] = {}
    failures: dict[str, Failure] = {}
    for name, check in checks.items():
        try:
            outputs[name] = await asyncio.to_thread(check)
        except Failure as failure:
            failures[name] = failure
    return EncodeReport(
        outputs=outputs, failures=failures, cpu_seconds=ended.cpu_seconds, wall_seconds=ended.wall_seconds
    )


async def _ignore(progress: Progress) -> None:
    """Images take seconds; nobody follows them."""
    del progress
