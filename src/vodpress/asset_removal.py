"""Deleting an asset: its jobs are cancelled, its rows go in one transaction, then its objects."""

from __future__ import annotations

from vodpress.domain.events import Event, EventType
from vodpress.domain.keys import asset_prefix
from vodpress.ports import ObjectStore, UnitOfWork
from vodpress.stages.services import delete_below


async def delete_asset(asset_id: str, *, work: UnitOfWork, store: ObjectStore) -> bool:
    """Delete an asset for good; False when there is none.

    Workers on it lose their lease in the same transaction, so nothing they finish later can bring it back.
    """
    async with work.begin() as transaction:
        asset = await transaction.assets.get(asset_id, lock=True)
        if asset is None:
            return False
        await transaction.jobs.cancel_of_asset(asset_id)
        await transaction.emit(Event(EventType.ASSET_DELETED, asset_id, {"passthrough": asset.passthrough}))
        await transaction.assets.delete(asset_id)
    await delete_below(asset_prefix(asset_id), store)
    if asset.source_key is not None:
        async with work.begin() as transaction:
            if not await transaction.assets.source_is_used(asset.source_key):
                await store.delete([asset.source_key])
    return True
