"""`vodpress process`: files in, streams out, with nothing else running."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from vodpress.bootstrap import open_platform
from vodpress.cli.progress_view import LineView, LiveView, SilentView, View
from vodpress.cli.running import AsJson, print_json, print_lines, run, stop_on_signals
from vodpress.cli.wishes import Bulk, Files, LadderName, Passthrough, PublishWhen, choose, require_text
from vodpress.domain.failure import ExitCode, worst
from vodpress.export import require_writable
from vodpress.processing import FileResult, Processing, Wishes, refused
from vodpress.settings import Settings

# Somebody is waiting in front of the terminal, and nobody else serves the queue: shorter waits than a service has.
_FOR_ONE_RUN = {"media_retry_delays_seconds": (2.0, 10.0, 30.0), "lease_seconds": 15.0, "grace_seconds": 0.0}


def process(
    files: Files,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where each file gets a folder of its own.", readable=False)
    ],
    ladder: LadderName = None,
    publish: PublishWhen = None,
    bulk: Bulk = False,
    passthrough: Passthrough = "",
    as_json: AsJson = False,
) -> None:
    """Turn files into adaptive streams, and wait for them.

    Submits each file, works on the queue in this process until every one is settled, and writes a complete result for
    each into a folder of DIR that is named after the file. What was made before is not made again. After an
    interruption the same command goes on from what is finished.

    \b
    Examples:
      vodpress process talk.mp4 --out streams
      vodpress process *.mov --out streams --ladder my-ladder.toml
      vodpress process talk.mp4 --out streams --json | jq .manifest
    """
    require_text(passthrough)
    results = run(
        lambda settings: _process(files, settings, _wishes(settings, out, ladder, publish, passthrough, bulk), as_json),
        as_json=as_json,
        instead=(lambda error: [refused(path, error) for path in files]) if as_json else None,
    )
    for result in results:
        if as_json:
            print_json(result.document)
        else:
            _tell(result)
    raise typer.Exit(int(worst(result.exit_code for result in results)))


async def _process(files: Sequence[Path], settings: Settings, wishes: Wishes, as_json: bool) -> list[FileResult]:
    stop = asyncio.Event()
    stop_on_signals(stop)
    view: View = _choose_view(as_json=as_json)
    require_writable(wishes.out).rmdir()
    async with open_platform(_for_one_run(settings)) as platform:
        with view:
            return await Processing(platform, wishes, on_change=view.show).run(files, stop)


def _wishes(
    settings: Settings, out: Path, ladder: str | None, publish: str | None, passthrough: str, bulk: bool
) -> Wishes:
    chosen, policy = choose(settings, ladder, publish)
    return Wishes(ladder=chosen, passthrough=passthrough, out=out, publish=policy, bulk=bulk)


def _for_one_run(settings: Settings) -> Settings:
    chosen = settings.model_fields_set
    return settings.model_copy(update={key: value for key, value in _FOR_ONE_RUN.items() if key not in chosen})


def _choose_view(*, as_json: bool) -> View:
    if sys.stderr.isatty():
        return LiveView()
    return SilentView() if as_json else LineView()


def _tell(result: FileResult) -> None:
    document = result.document
    if result.exit_code is ExitCode.DONE:
        names = ", ".join(rendition["name"] for rendition in document["renditions"])
        how = "made before" if document["reused"] else f"in {document['wall_seconds']:.1f} s"
        print_lines(f"{result.path}: ready ({names}; {how})", f"  {document['manifest']}")
        return
    reason = document["reason"]
    print_lines(f"{result.path}: {document['state']}: {reason['message']} ({reason['code']})")
    if document["manifest"]:
        print_lines(f"  {document['manifest']}")
