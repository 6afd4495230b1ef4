"""What commands that take files have in common: the files, and what is to be made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vodpress.domain.ladder import Ladder
from vodpress.domain.publication import PublishPolicy, parse_policy
from vodpress.export import as_text
from vodpress.ladder_files import load_ladder
from vodpress.settings import Settings
from vodpress.stages.upload import Submission

# Not judged by typer: a file that may not be read has a code of ours.
Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Videos.", show_default=False, readable=False)]
LadderName = Annotated[
    str | None, typer.Option("--ladder", metavar="NAME|FILE.toml", help="Which renditions to make.", show_default=False)
]
PublishWhen = Annotated[
    str | None,
    typer.Option(
        "--publish", metavar="all|playable|RUNG,…", help="What must be there before it is shown.", show_default=False
    ),
]
Bulk = Annotated[bool, typer.Option("--bulk", help="Encode only while nothing else waits to be encoded.")]
Passthrough = Annotated[str, typer.Option(metavar="TEXT", help="Your own reference, kept with the asset.")]


def require_text(passthrough: str) -> None:
    """Refuse bytes that are no UTF-8.

    Raises:
        typer.BadParameter: with the option's name.
    """
    if any("\ud800" <= character <= "\udfff" for character in passthrough):
        raise typer.BadParameter("It must be text in UTF-8.", param_hint="--passthrough")


def choose(settings: Settings, ladder: str | None, publish: str | None) -> tuple[Ladder, PublishPolicy]:
    """The ladder and the publish policy that were named, or those of the settings.

    Raises:
        InvalidRequest: what `load_ladder` and `parse_policy` raise.
    """
    chosen = load_ladder(ladder or settings.default_ladder, home=settings.home)
    return chosen, parse_policy(publish or settings.publish, known={rung.name for rung in chosen.rungs})


def submission(
    file: Path, settings: Settings, ladder: str | None, publish: str | None, bulk: bool, passthrough: str
) -> Submission:
    """What is said of a file when it is handed over."""
    chosen, policy = choose(settings, ladder, publish)
    return Submission(
        tenant=settings.tenant,
        title=as_text(file.name),
        passthrough=passthrough,
        ladder=chosen,
        publish=policy,
        bulk=bulk,
    )
