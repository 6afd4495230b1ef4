"""`vodpress submit`: hand files over to the workers, and leave."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from vodpress.bootstrap import Platform, open_platform
from vodpress.cli.running import AsJson, print_json, print_lines, run, say
from vodpress.cli.wishes import Bulk, Files, LadderName, Passthrough, PublishWhen, require_text, submission
from vodpress.domain.failure import ExitCode, Failure, InvalidRequest, worst
from vodpress.processing import require_readable
from vodpress.settings import Settings
from vodpress.stages import upload


def submit(
    files: Files,
    ladder: LadderName = None,
    publish: PublishWhen = None,
    bulk: Bulk = False,
    passthrough: Passthrough = "",
    as_json: AsJson = False,
) -> None:
    """Store files and enqueue their work, for workers to do (see `vodpress worker`).

    The same file with the same passthrough is the same asset: submitting it again asks only for what is missing.

    \b
    Examples:
      vodpress submit talk.mp4
      vodpress submit archive/*.mov --bulk --json | jq -r .asset
    """
    require_text(passthrough)
    results = run(lambda settings: _submit(files, ladder, publish, bulk, passthrough, settings), as_json=as_json)
    for document in results:
        if as_json:
            print_json(document)
        elif document["reason"] is None:
            print_lines(f"{document['file']}: asset {document['asset']}")
        else:
            say(f"vodpress: {document['file']}: {document['reason']['message']} ({document['reason']['code']})")
    raise typer.Exit(int(worst(ExitCode(document["exit_code"]) for document in results)))


async def _submit(
    files: Sequence[Path], ladder: str | None, publish: str | None, bulk: bool, passthrough: str, settings: Settings
) -> list[dict[str, Any]]:
    async with open_platform(settings) as platform:
        return [
            await _one(file, submission(file, settings, ladder, publish, bulk, passthrough), platform) for file in files
        ]


async def _one(file: Path, wanted: upload.Submission, platform: Platform) -> dict[str, Any]:
    """Submit one file; one that is refused stops no other."""
    result: dict[str, Any] = {"file": str(file), "asset": None, "exit_code": 0, "reason": None}
    try:
        require_readable(file)
        received = await upload.receive_file(
            file, upload_id=uuid.uuid4().hex, tenant=wanted.tenant, services=platform.services
        )
        result["asset"] = await upload.finish(received, wanted, asset_id=uuid.uuid4().hex, services=platform.services)
    except (InvalidRequest, Failure) as error:
        result |= {"exit_code": int(error.exit_code), "reason": {"code": error.code, "message": error.message}}
    return result
