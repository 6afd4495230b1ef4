"""From database rows to the records of the ports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from vodpress.domain.asset import AssetState
from vodpress.domain.keys import plan_prefix
from vodpress.domain.ladder import Ladder
from vodpress.domain.media import Probe
from vodpress.domain.plan import Plan
from vodpress.domain.publication import Contents, PublishPolicy
from vodpress.domain.rendition import PlanState, RenditionState, SliceState
from vodpress.ports import (
    AssetRecord,
    DeadLetterRecord,
    ManifestRecord,
    PlanRecord,
    RenditionRecord,
    SliceRecord,
    StoredOutput,
)

Row = Mapping[str, Any]
PROBE: TypeAdapter[Probe] = TypeAdapter(Probe)


def asset(row: Row) -> AssetRecord:
    """A row of `assets`."""
    return AssetRecord(
        id=row["id"],
        tenant=row["tenant"],
        state=AssetState(row["state"]),
        title=row["title"],
        passthrough=row["passthrough"],
        source_sha256=row["source_sha256"],
        source_bytes=row["source_bytes"],
        source_key=row["source_key"],
        probe=PROBE.validate_python(row["probe"]) if row["probe"] is not None else None,
        reason_code=row["reason_code"],
        reason_message=row["reason_message"],
        live_version=row["live_version"],
        held=row["held_at_plan"] is not None,
        created_at=timestamp(row["created_at"]),
        ready_at=timestamp(row["ready_at"]) if row["ready_at"] else None,
    )


def plan(row: Row) -> PlanRecord:
    """A row of `plans` joined with its asset's tenant."""
    return PlanRecord(
        id=row["id"],
        asset_id=row["asset_id"],
        tenant=row["tenant"],
        plan_hash=row["plan_hash"],
        ladder_name=row["ladder_name"],
        ladder=Ladder.model_validate(row["ladder"]) if row["ladder"] is not None else None,
        plan=Plan.model_validate(row["document"]),
        publish=PublishPolicy(row["publish"]),
        early_rung=row["early_rung"],
        bulk=row["bulk"],
        state=PlanState(row["state"]),
        renditions_open=row["renditions_open"],
        images_state=row["images_state"],
        images=row["images"],
        prefix=plan_prefix(asset_id=row["asset_id"], source_sha256=row["source_sha256"], plan_hash=row["plan_hash"]),
        source_key=row["source_key"],
        source_sha256=row["source_sha256"],
    )


def rendition(row: Row) -> RenditionRecord:
    """A row of `renditions`."""
    return RenditionRecord(
        id=row["id"],
        plan_id=row["plan_id"],
        name=row["name"],
        kind=row["kind"],
        required=row["required"],
        state=RenditionState(row["state"]),
        slices_open=row["slices_open"],
        weight=row["weight"],
        key=row["key"],
        sha256=row["sha256"],
        frames=row["frames"],
        reason_code=row["reason_code"],
    )


def slice_(row: Row) -> SliceRecord:
    """A row of `slices`."""
    return SliceRecord(
        rendition_id=row["rendition_id"],
        index=row["index"],
        state=SliceState(row["state"]),
        attempt=row["attempt"],
        lease=str(row["lease"]) if row["lease"] else None,
        key=row["key"],
        sha256=row["sha256"],
        frames=row["frames"],
    )


def stored_output(row: Row) -> StoredOutput:
    """The recorded object of a rendition."""
    return StoredOutput(key=row["key"], bytes=row["bytes"], sha256=row["sha256"], frames=row["frames"])


def manifest(row: Row) -> ManifestRecord:
    """A row of `manifests` joined with its plan."""
    return ManifestRecord(
        asset_id=row["asset_id"],
        version=row["version"],
        plan_hash=row["plan_hash"],
        prefix=row["prefix"],
        document=row["document"],
    )


def dead_letter(row: Row) -> DeadLetterRecord:
    """A row of `dead_letters`."""
    return DeadLetterRecord(
        id=row["id"],
        asset_id=row["asset_id"],
        job_kind=row["job_kind"],
        job_args=row["job_args"],
        kind=row["kind"],
        code=row["code"],
        message=row["message"],
        detail=row["detail"],
        traceback=row["traceback"],
        attempts=row["attempts"],
        created_at=timestamp(row["created_at"]),
        resolution=row["resolution"],
        resolved_at=timestamp(row["resolved_at"]) if row["resolved_at"] else None,
        decided_by=row["decided_by"],
        decided_why=row["decided_why"],
    )


def contents(document: Mapping[str, Any]) -> Contents:
    """`plans.reserved_contents`."""
    return Contents(tuple(document["renditions"]), tuple(document["waived"]), images=document["images"])


def timestamp(moment: datetime) -> str:
    """ISO 8601 in the session's time zone, which is UTC."""
    return moment.isoformat()
