"""`vodpress events` and `vodpress queue`: what happened, and what waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from vodpress.adapters.queue.inspect import list_jobs
from vodpress.bootstrap import open_records
from vodpress.cli.running import AsJson, print_json, print_table, run
from vodpress.domain.job import JobRecord, JobState, Queue
from vodpress.settings import Settings

events = typer.Typer(help="Events: the facts that were committed.", no_args_is_help=True, rich_markup_mode=None)
queue = typer.Typer(help="The job queue.", no_args_is_help=True, rich_markup_mode=None)

Limit = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")]


@events.command("list")
def list_events(
    after: Annotated[int, typer.Option(min=0, help="Only those after this position.")] = 0,
    asset: Annotated[str | None, typer.Option(help="Only those of this asset.", show_default=False)] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List events, oldest first.

    \b
    Examples:
      vodpress events list
      vodpress events list --after 120 --json | jq -r '.[].type'
    """
    found = run(lambda settings: _events(after, asset, limit, settings), as_json=as_json)
    if as_json:
        print_json(found)
    else:
        print_table([dict(row) for row in found], ["position", "occurred_at", "type", "asset_id"])


@queue.command("list")
def list_queue(
    of_queue: Annotated[Queue | None, typer.Option("--queue", help="Only this queue.", show_default=False)] = None,
    state: Annotated[JobState | None, typer.Option(help="Only jobs in this state.", show_default=False)] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first.

    \b
    Examples:
      vodpress queue list --state todo
      vodpress queue list --queue encode --json | jq length
    """
    found = run(lambda settings: _jobs(of_queue, state, limit, settings), as_json=as_json)
    rows = [{**asdict(job), "asset": job.args.get("asset_id")} for job in found]
    if as_json:
        print_json(rows)
    else:
        print_table([dict(row) for row in rows], ["id", "queue", "kind", "state", "attempt", "asset"])


async def _events(after: int, asset: str | None, limit: int, settings: Settings) -> Sequence[Mapping[str, Any]]:
    async with open_records(settings) as work, work.begin() as transaction:
        return await transaction.outbox.list(after=after, limit=limit, asset_id=asset)


async def _jobs(of_queue: Queue | None, state: JobState | None, limit: int, settings: Settings) -> Sequence[JobRecord]:
    async with open_records(settings) as work, work.begin() as transaction:
        return await list_jobs(transaction.session.connection, queue=of_queue, state=state, limit=limit)
