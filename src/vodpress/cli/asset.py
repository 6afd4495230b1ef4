"""`vodpress asset`: list, show, explain, roll back and delete."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vodpress import decisions
from vodpress.asset_removal import delete_asset
from vodpress.bootstrap import open_records, open_storage
from vodpress.cli.deciding import By, Why, decider
from vodpress.cli.running import AsJson, print_json, print_lines, print_table, run
from vodpress.domain.deadletter import Decider
from vodpress.domain.failure import InvalidRequest
from vodpress.overview import AssetOverview, explain, look_at
from vodpress.ports import AssetRecord, Transaction
from vodpress.settings import Settings

app = typer.Typer(help="Assets: list, show, explain, roll back, delete.", no_args_is_help=True, rich_markup_mode=None)

AssetId = Annotated[str, typer.Argument(metavar="ASSET", help="An asset's id, or its unambiguous beginning.")]


@app.command("list")
def list_assets(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50, as_json: AsJson = False
) -> None:
    """List the newest assets.

    \b
    Examples:
      vodpress asset list
      vodpress asset list --limit 1000 --json | jq -r '.[] | select(.state == "errored") | .asset'
    """
    found = run(lambda settings: _list(limit, settings), as_json=as_json)
    rows = [_row(asset) for asset in found]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, ["asset", "state", "version", "created_at", "title"])


@app.command("show")
def show(asset: AssetId, as_json: AsJson = False) -> None:
    """Show an asset with its plans, renditions, dead letters and jobs.

    \b
    Examples:
      vodpress asset show 3f2a
      vodpress asset show 3f2a --json | jq .plans
    """
    overview = run(lambda settings: _look(asset, settings), as_json=as_json)
    document = _document(overview)
    if as_json:
        print_json(document)
        return
    plain = {key: value for key, value in document.items() if not isinstance(value, list | dict | None)}
    print_lines(*(f"{key}: {value}" for key, value in plain.items() if value != ""))
    for plan in document["plans"]:
        print_lines(f"plan {plan['plan_hash'][:16]} ({plan['ladder']}): {plan['state']}")
        print_table(plan["renditions"], ["name", "kind", "state", "frames", "slices_open", "reason"])


@app.command("why")
def why(asset: AssetId, as_json: AsJson = False) -> None:
    """Say in plain words why an asset is not ready, and what to do.

    \b
    Examples:
      vodpress asset why 3f2a
    """
    overview = run(lambda settings: _look(asset, settings), as_json=as_json)
    lines = explain(overview)
    if as_json:
        state = "blocked" if overview.blocked else overview.asset.state
        print_json({"asset": overview.asset.id, "state": state, "why": lines})
    else:
        print_lines(*lines)


@app.command("delete")
def delete(
    asset: AssetId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete an asset for good: its jobs, its rows, its objects, and its source where no other asset needs it.

    \b
    Examples:
      vodpress asset delete 3f2a
      vodpress asset delete 3f2a --yes --json
    """
    if not yes and not as_json:
        typer.confirm(f"Delete asset {asset} for good?", abort=True, err=True)
    deleted = run(lambda settings: _delete(asset, settings), as_json=as_json)
    if as_json:
        print_json({"asset": deleted, "deleted": True})
    else:
        print_lines(f"Asset {deleted} is deleted.")


@app.command("rollback")
def rollback(
    asset: AssetId,
    to: Annotated[
        int | None, typer.Option(min=1, metavar="VERSION", help="By default the one before.", show_default=False)
    ] = None,
    why: Why = "",
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Go back to an earlier version, at once. Nothing is deleted; `--to` the newest version undoes it.

    \b
    Examples:
      vodpress asset rollback 3f2a --why "the new ladder looks worse"
      vodpress asset rollback 3f2a --to 2
    """
    asset_id, version = run(lambda settings: _roll_back(asset, to, decider(by, why), settings), as_json=as_json)
    if as_json:
        print_json({"asset": asset_id, "version": version})
    else:
        print_lines(f"Version {version} of asset {asset_id} is live.")


async def _roll_back(asset: str, to: int | None, who: Decider, settings: Settings) -> tuple[str, int]:
    async with open_records(settings) as work, work.begin() as transaction:
        asset_id = await _resolve(asset, transaction)
        return asset_id, await decisions.roll_back(transaction, asset_id, who, version=to)


async def _list(limit: int, settings: Settings) -> list[AssetRecord]:
    async with open_records(settings) as work, work.begin() as transaction:
        return list(await transaction.assets.list(limit=limit))


async def _look(asset: str, settings: Settings) -> AssetOverview:
    async with open_records(settings) as work, work.begin() as transaction:
        overview = await look_at(transaction, await _resolve(asset, transaction))
    if overview is None:
        raise _unknown(asset)
    return overview


async def _delete(asset: str, settings: Settings) -> str:
    async with open_records(settings) as work:
        async with work.begin() as transaction:
            asset_id = await _resolve(asset, transaction)
        if not await delete_asset(asset_id, work=work, store=open_storage(settings)):
            raise _unknown(asset)
        return asset_id


async def _resolve(asset: str, transaction: Transaction) -> str:
    found = await transaction.assets.starting_with(asset)
    if len(found) > 1 and found[0] != asset:
        raise InvalidRequest("ambiguous_asset", f"Several assets start with '{asset}'; give more of the id.")
    if not found:
        raise _unknown(asset)
    return found[0]


def _unknown(asset: str) -> InvalidRequest:
    return InvalidRequest("unknown_asset", f"There is no asset '{asset}'; see `vodpress asset list`.")


def _row(asset: AssetRecord) -> dict[str, Any]:
    return {
        "asset": asset.id,
        "state": asset.state,
        "version": asset.live_version,
        "held": asset.held,
        "created_at": asset.created_at,
        "ready_at": asset.ready_at,
        "title": asset.title,
        "passthrough": asset.passthrough,
        "reason": {"code": asset.reason_code, "message": asset.reason_message} if asset.reason_code else None,
    }


def _document(overview: AssetOverview) -> dict[str, Any]:
    asset = overview.asset
    return {
        **_row(asset),
        "blocked": overview.blocked,
        "source_sha256": asset.source_sha256,
        "source_bytes": asset.source_bytes,
        "plans": [
            {
                "plan_hash": plan.record.plan_hash,
                "ladder": plan.record.ladder_name,
                "state": plan.record.state,
                "publish": plan.record.publish.text,
                "version": plan.manifest.version if plan.manifest else None,
                "prefix": plan.record.prefix,
                "fraction": round(plan.progress.fraction, 4),
                "renditions": [
                    {
                        "name": rendition.name,
                        "kind": rendition.kind,
                        "required": rendition.required,
                        "state": rendition.state,
                        "frames": rendition.frames,
                        "slices_open": rendition.slices_open,
                        "reason": rendition.reason_code,
                    }
                    for rendition in plan.renditions
                ],
            }
            for plan in overview.plans
        ],
        "dead_letters": [
            {
                "id": letter.id,
                "job_kind": letter.job_kind,
                "kind": letter.kind,
                "code": letter.code,
                "message": letter.message,
                "detail": letter.detail,
                "attempts": letter.attempts,
                "created_at": letter.created_at,
            }
            for letter in overview.dead_letters
        ],
        "jobs": {
            "running": overview.jobs.running,
            "waiting": overview.jobs.waiting,
            "delayed": overview.jobs.delayed,
        },
    }
