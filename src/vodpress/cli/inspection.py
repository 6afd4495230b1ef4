"""`vodpress probe` and `vodpress plan`: look without touching anything."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter

from vodpress.bootstrap import open_media
from vodpress.cli.running import AsJson, print_json, print_lines, run
from vodpress.domain.media import Probe
from vodpress.domain.plan import Plan, fingerprint, make_plan
from vodpress.ladder_files import load_ladder
from vodpress.processing import require_readable
from vodpress.settings import Settings

# Not judged by typer: a file that may not be read has a code of ours.
File = Annotated[Path, typer.Argument(metavar="FILE", help="A video.", show_default=False, readable=False)]


def probe(file: File, as_json: AsJson = False) -> None:
    """Show what a file is: streams, size, frame rate, length, problems.

    Reads every packet and decodes samples, exactly as the first step of processing does. Nothing is stored.

    \b
    Examples:
      vodpress probe talk.mp4
      vodpress probe talk.mp4 --json | jq .video.width
    """
    found = run(lambda settings: _probe(file, settings), as_json=as_json)
    if as_json:
        print_json(TypeAdapter(Probe).dump_python(found, mode="json"))
        return
    video = found.video
    kind = "variable" if video.is_variable_frame_rate else "constant"
    print_lines(
        f"{file}: {found.container}, {float(found.duration_seconds):.3f} s, {found.bytes} bytes",
        f"  video: {video.codec} {video.width}×{video.height}, {float(video.declared_frame_rate):.3f} frames/s "
        f"({kind}), {video.scan.packets} frames, {'HDR' if video.is_hdr else 'SDR'}",
        *(f"  audio: {audio.codec}, {audio.channels} channels, {audio.sample_rate_hz} Hz" for audio in found.audio),
        *(f"  warning: {warning}" for warning in found.warnings),
    )


def plan(
    file: File,
    ladder: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.toml", help="Which renditions to make.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what would be made of a file: rungs, slices, exact FFmpeg arguments, plan hash. Nothing is stored.

    \b
    Examples:
      vodpress plan talk.mp4
      vodpress plan talk.mp4 --ladder my-ladder.toml --json | jq .plan_hash
    """
    document = run(lambda settings: _plan(file, ladder, settings), as_json=as_json)
    if as_json:
        print_json(document)
        return
    made: Plan = Plan.model_validate(document["plan"])
    print_lines(
        f"{file}: {made.frames} frames at {made.frame_rate} a second, GOPs of {made.gop_frames}, "
        f"segments of {made.segment_frames} frames, {len(made.slices)} slice(s)",
        *(
            f"  {rung.name}: {rung.width}×{rung.height} {rung.codec} crf {rung.crf:g}, ≤ {rung.maxrate_kbps} kbit/s"
            for rung in made.rungs
        ),
        *([f"  {made.audio.name}: {made.audio.codec} {made.audio.bitrate_kbps} kbit/s"] if made.audio else []),
        f"  plan hash: {document['plan_hash']}",
    )


async def _probe(file: Path, settings: Settings) -> Probe:
    require_readable(file)
    media = await open_media(settings)
    found = await media.prober.probe(file)
    if settings.decode_check != "none":
        await media.prober.decode_check(file, found, whole=settings.decode_check == "whole")
    return found


async def _plan(file: Path, ladder: str | None, settings: Settings) -> dict[str, Any]:
    require_readable(file)
    wanted = load_ladder(ladder or settings.default_ladder, home=settings.home)
    media = await open_media(settings)
    made = make_plan(await media.prober.probe(file), wanted)
    commands = [*media.transcoder.commands(made), media.packager.command(made)]
    tools = {**media.transcoder.versions(), **media.packager.versions()}
    return {
        "file": str(file),
        "ladder": wanted.name,
        "plan_hash": fingerprint(made, commands=commands, tools=tools),
        "rungs": [rung.model_dump(mode="json") for rung in made.rungs],
        "plan": made.model_dump(mode="json"),
        "tools": tools,
        "commands": commands,
    }
