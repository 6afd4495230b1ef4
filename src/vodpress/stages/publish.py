"""Publish: the moment a version becomes visible. State, manifest row and events are one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vodpress.domain.asset import AssetState
from vodpress.domain.events import Event, EventType
from vodpress.domain.manifest import contents_of
from vodpress.domain.rendition import PlanState
from vodpress.ports import PlanRecord, Transaction


async def publish(
    transaction: Transaction, plan: PlanRecord, *, version: int, prefix: str, sha256: str, document: Mapping[str, Any]
) -> None:
    """Record a version whose manifest object is in place, and make it the live one.

    With a part of its renditions a plan goes on; with all that were not waived it is `published`.
    """
    await transaction.manifests.add(
        asset_id=plan.asset_id, version=version, plan_id=plan.id, prefix=prefix, sha256=sha256, document=document
    )
    states = {rendition.name: rendition.state for rendition in await transaction.plans.renditions(plan.id)}
    contents = contents_of(document)
    if plan.state is PlanState.PACKAGING and set(states) == {*contents.renditions, *contents.waived}:
        await transaction.plans.move(plan.id, PlanState.PUBLISHED)
    became_ready = await transaction.assets.move(plan.asset_id, AssetState.READY, live_version=version)
    if not became_ready:
        await transaction.assets.set_live_version(plan.asset_id, version, plan_id=plan.id)
    data = {"version": version, "plan_hash": plan.plan_hash, "prefix": prefix, "sha256": sha256}
    await transaction.emit(Event(EventType.MANIFEST_PUBLISHED, plan.asset_id, data))
    if became_ready:
        await transaction.emit(
            Event(EventType.ASSET_READY, plan.asset_id, {"version": version, "plan_hash": plan.plan_hash})
        )
