"""Rows of `assets`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from psycopg.types.json import Jsonb

from vodpress.adapters.db import rows
from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import Session
from vodpress.domain.asset import ASSET, AssetState
from vodpress.domain.failure import Failure
from vodpress.domain.media import Probe
from vodpress.ports import AssetRecord, NewAsset

_SQL = load(__package__, "assets.sql")


class PostgresAssets:
    """`ports.Assets` over one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, asset: NewAsset) -> bool:
        """See `ports.Assets.add`."""
        return await self._session.change(_SQL["add"], **asdict(asset)) == 1

    async def get(self, asset_id: str, *, lock: bool = False) -> AssetRecord | None:
        """See `ports.Assets.get`."""
        row = await self._session.one(_SQL["by_id_locked" if lock else "by_id"], id=asset_id)
        return rows.asset(row) if row else None

    async def by_source(self, *, tenant: str, sha256: str, passthrough: str) -> AssetRecord | None:
        """See `ports.Assets.by_source`."""
        row = await self._session.one(_SQL["by_source"], tenant=tenant, sha256=sha256, passthrough=passthrough)
        return rows.asset(row) if row else None

    async def move(
        self, asset_id: str, target: AssetState, *, reason: Failure | None = None, live_version: int | None = None
    ) -> bool:
        """See `ports.Assets.move`."""
        changed = await self._session.change(
            _SQL["move"],
            id=asset_id,
            target=target,
            sources=list(ASSET.sources(target)),
            reason_code=reason.code if reason else None,
            reason_message=reason.message if reason else None,
            live_version=live_version,
        )
        return changed == 1

    async def set_probe(self, asset_id: str, probe: Probe) -> None:
        """See `ports.Assets.set_probe`."""
        document = rows.PROBE.dump_python(probe, mode="json")
        await self._session.change(_SQL["set_probe"], id=asset_id, probe=Jsonb(document))

    async def set_live_version(self, asset_id: str, version: int, *, plan_id: int) -> bool:
        """See `ports.Assets.set_live_version`."""
        changed = await self._session.change(_SQL["set_live_version"], id=asset_id, version=version, plan_id=plan_id)
        return changed == 1

    async def hold_version(self, asset_id: str, version: int, *, hold: bool) -> bool:
        """See `ports.Assets.hold_version`."""
        return await self._session.change(_SQL["hold_version"], id=asset_id, version=version, hold=hold) == 1

    async def replace_source(self, asset_id: str, *, sha256: str, size: int, key: str) -> bool:
        """See `ports.Assets.replace_source`."""
        return await self._session.change(_SQL["replace_source"], id=asset_id, sha256=sha256, size=size, key=key) == 1

    async def list(self, *, limit: int) -> Sequence[AssetRecord]:
        """See `ports.Assets.list`."""
        return [rows.asset(row) for row in await self._session.all(_SQL["newest"], limit=limit)]

    async def starting_with(self, beginning: str) -> Sequence[str]:
        """See `ports.Assets.starting_with`."""
        return [row["id"] for row in await self._session.all(_SQL["starting_with"], beginning=beginning)]

    async def delete(self, asset_id: str) -> bool:
        """See `ports.Assets.delete`."""
        return await self._session.change(_SQL["delete"], id=asset_id) == 1

    async def source_is_used(self, source_key: str) -> bool:
        """See `ports.Assets.source_is_used`."""
        row = await self._session.one(_SQL["source_is_used"], source_key=source_key)
        return bool(row and row["used"])
