"""`vodpress dead-letter`: work that waits for a person, and the person's decision."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from vodpress import decisions
from vodpress.bootstrap import open_platform, open_records
from vodpress.cli.dead_letter_view import document, group, remedy, row
from vodpress.cli.deciding import By, Why, decider
from vodpress.cli.running import AsJson, print_json, print_lines, print_table, run, say
from vodpress.domain.deadletter import Cause, Decider
from vodpress.domain.failure import CODES, ExitCode, InvalidRequest
from vodpress.ladder_files import load_ladder
from vodpress.ports import DeadLetterRecord, Transaction, UnitOfWork
from vodpress.processing import require_readable
from vodpress.settings import Settings
from vodpress.stages import upload

app = typer.Typer(
    help="Dead letters: work that waits for a person's decision.", no_args_is_help=True, rich_markup_mode=None
)

_PAGE = 500

LetterIds = Annotated[
    list[int] | None, typer.Argument(metavar="[ID]...", help="Dead letters, by number.", show_default=False)
]
OfCause = Annotated[str | None, typer.Option("--cause", metavar="CODE", help="All with this code.", show_default=False)]
Every = Annotated[bool, typer.Option("--all", help="All that are undecided.")]
Rate = Annotated[
    float, typer.Option(min=0.01, max=1000, help="Decisions a second, at most, so that workers are not flooded.")
]

Decide = Callable[[Transaction, int, Decider], Awaitable[DeadLetterRecord]]


@app.command("list")
def list_letters(
    cause: OfCause = None,
    asset: Annotated[str | None, typer.Option(help="Only those of this asset.", show_default=False)] = None,
    decided: Annotated[bool, typer.Option("--decided", help="Decided ones, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="At most so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List dead letters, grouped by cause with what to do about it.

    \b
    Examples:
      vodpress dead-letter list
      vodpress dead-letter list --cause storage_unavailable --json | jq '.letters[].id'
    """
    causes, letters = run(lambda settings: _list(settings, cause, asset, decided, limit), as_json=as_json)
    if as_json:
        print_json({"causes": [group(entry) for entry in causes], "letters": [row(letter) for letter in letters]})
        return
    for entry in causes:
        of_assets = f"{entry.count} of {entry.assets} asset(s), the oldest from {entry.oldest_at}"
        print_lines(f"{entry.code}: {of_assets}", f"  What to do: {remedy(entry.code)}")
    print_table([row(letter) for letter in letters], ["id", "asset", "job", "code", "attempts", "created_at", "state"])


@app.command("show")
def show(
    letter: Annotated[int, typer.Argument(metavar="ID", help="A dead letter, by number.")], as_json: AsJson = False
) -> None:
    """Show a dead letter: the sentence for the owner of the file; standard error and traceback for the operator.

    \b
    Examples:
      vodpress dead-letter show 17
    """
    found = run(lambda settings: _get(settings, letter), as_json=as_json)
    if as_json:
        print_json(document(found))
        return
    print_lines(
        f"Dead letter {found.id} of asset {found.asset_id}: {found.job_kind}, {found.attempts} attempt(s)",
        f"{found.message} ({found.code}, {found.kind})",
        f"What to do: {remedy(found.code)}",
        f"Arguments: {dict(found.job_args)}",
    )
    if found.resolution:
        print_lines(f"Decided: {found.resolution} by {found.decided_by} at {found.resolved_at}: {found.decided_why}")
    for title, text in (("Detail", found.detail), ("Traceback", found.traceback)):
        if text:
            print_lines(f"{title}:", *(f"  {line}" for line in text.splitlines()))


@app.command("retry")
def retry(
    letters: LetterIds = None,
    why: Why = "",
    by: By = None,
    cause: OfCause = None,
    every: Every = False,
    rate: Rate = 20,
    as_json: AsJson = False,
) -> None:
    """Try again, when the cause is mended. Only what is missing is repeated.

    \b
    Examples:
      vodpress dead-letter retry 17 --why "the disk was replaced"
      vodpress dead-letter retry --cause storage_unavailable --rate 5
    """
    _decide(decisions.retry, letters, cause, every, decider(by, why), rate, as_json)


@app.command("waive")
def waive(
    letters: LetterIds = None,
    why: Why = "",
    by: By = None,
    cause: OfCause = None,
    every: Every = False,
    rate: Rate = 20,
    as_json: AsJson = False,
) -> None:
    """Go on without what was given up, where the publish policy allows. The next version says what it lacks.

    \b
    Examples:
      vodpress dead-letter waive 17 --why "nobody watches 240p"
    """
    _decide(decisions.waive, letters, cause, every, decider(by, why), rate, as_json)


@app.command("fail")
def fail(
    letters: LetterIds = None,
    why: Why = "",
    by: By = None,
    cause: OfCause = None,
    every: Every = False,
    rate: Rate = 20,
    as_json: AsJson = False,
) -> None:
    """Give up: an asset that was never shown becomes `errored`; of one that is shown, only the new plan ends.

    \b
    Examples:
      vodpress dead-letter fail 17 --why "the recording is lost"
    """
    _decide(decisions.fail, letters, cause, every, decider(by, why), rate, as_json)


@app.command("replace-source")
def replace_source(
    letter: Annotated[int, typer.Argument(metavar="ID", help="A dead letter, by number.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The video to take instead.", readable=False)],
    why: Why = "",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Go on with another file in place of the asset's source. The asset keeps its id; what is live stays live.

    \b
    Examples:
      vodpress dead-letter replace-source 17 talk-again.mp4 --why "the first export was cut short"
    """
    decided = run(lambda settings: _replace(settings, letter, file, decider(by, why)), as_json=as_json)
    _tell([decided], [], as_json)


def _decide(
    decide: Decide,
    letters: list[int] | None,
    cause: str | None,
    every: bool,
    person: Decider,
    rate: float,
    as_json: bool,
) -> None:
    if (bool(letters) + (cause is not None) + every) != 1:
        raise typer.BadParameter("Name dead letters by number, or give --cause, or --all.", param_hint="ID")
    if cause is not None and cause not in CODES:
        raise typer.BadParameter(f"There is no code '{cause}'.", param_hint="--cause")
    decided, refused = run(
        lambda settings: _decide_each(settings, decide, letters, cause, person, rate), as_json=as_json
    )
    _tell(decided, refused, as_json)


def _tell(decided: Sequence[DeadLetterRecord], refused: Sequence[InvalidRequest], as_json: bool) -> None:
    if as_json:
        rows = [{"id": letter.id, "asset": letter.asset_id} for letter in decided]
        print_json({"decided": rows, "refused": [{"code": e.code, "message": e.message} for e in refused]})
    else:
        print_lines(*(f"Dead letter {letter.id} of asset {letter.asset_id} is decided." for letter in decided))
    for error in refused:
        say(f"vodpress: {error.message} ({error.code})")
    if refused:
        raise typer.Exit(int(ExitCode.USAGE if not decided else ExitCode.WAITS_FOR_DECISION))


async def _decide_each(
    settings: Settings, decide: Decide, letters: list[int] | None, cause: str | None, person: Decider, rate: float
) -> tuple[list[DeadLetterRecord], list[InvalidRequest]]:
    """Take the decision for each letter in a transaction of its own; a refusal stops no other."""
    decided: list[DeadLetterRecord] = []
    refused: list[InvalidRequest] = []
    async with open_records(settings) as work:
        for letter_id in letters or await _undecided(work, cause):
            if decided or refused:
                await asyncio.sleep(1 / rate)
            try:
                async with work.begin() as transaction:
                    if letters or await _is_undecided(transaction, letter_id):
                        decided.append(await decide(transaction, letter_id, person))
            except InvalidRequest as error:
                refused.append(error)
    return decided, refused


async def _is_undecided(transaction: Transaction, letter_id: int) -> bool:
    """Of a group, one decision may have settled others."""
    letter = await transaction.dead_letters.get(letter_id)
    return letter is not None and letter.resolution is None


async def _undecided(work: UnitOfWork, cause: str | None) -> list[int]:
    found: list[int] = []
    while True:
        async with work.begin() as transaction:
            page = await transaction.dead_letters.list(
                code=cause, asset_id=None, decided=False, after=found[-1] if found else 0, limit=_PAGE
            )
        found += [letter.id for letter in page]
        if len(page) < _PAGE:
            return found


async def _list(
    settings: Settings, cause: str | None, asset: str | None, decided: bool, limit: int
) -> tuple[Sequence[Cause], Sequence[DeadLetterRecord]]:
    async with open_records(settings) as work, work.begin() as transaction:
        letters = await transaction.dead_letters.list(code=cause, asset_id=asset, decided=decided, after=0, limit=limit)
        causes = await transaction.dead_letters.causes()
    return [entry for entry in causes if cause in {None, entry.code}], letters


async def _get(settings: Settings, letter_id: int) -> DeadLetterRecord:
    async with open_records(settings) as work, work.begin() as transaction:
        letter = await transaction.dead_letters.get(letter_id)
    if letter is None:
        raise InvalidRequest("unknown_dead_letter", f"There is no dead letter {letter_id}.")
    return letter


async def _replace(settings: Settings, letter_id: int, file: Path, person: Decider) -> DeadLetterRecord:
    require_readable(file)
    ladder = load_ladder(settings.default_ladder, home=settings.home)
    async with open_platform(settings) as platform:
        async with platform.work.begin() as transaction:
            letter = await transaction.dead_letters.get(letter_id)
            asset = await transaction.assets.get(letter.asset_id) if letter else None
        if asset is None:
            raise InvalidRequest("unknown_dead_letter", f"There is no dead letter {letter_id}.")
        received = await upload.receive_file(
            file, upload_id=uuid.uuid4().hex, tenant=asset.tenant, services=platform.services
        )
        decide = partial(decisions.replace_source, received=received, ladder=ladder)
        async with platform.work.begin() as transaction:
            return await decide(transaction, letter_id, decider=person)
