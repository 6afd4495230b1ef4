"""Rows of `manifests`, `dead_letters` and `outbox`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from psycopg.types.json import Jsonb

from vodpress.adapters.db import rows
from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import Session
from vodpress.domain.deadletter import Cause, Resolution
from vodpress.domain.events import Event
from vodpress.domain.failure import Failure
from vodpress.domain.publication import Contents
from vodpress.ports import DeadLetterRecord, ManifestRecord, Reservation

_MANIFESTS = load(__package__, "manifests.sql")
_DEAD_LETTERS = load(__package__, "dead_letters.sql")
_OUTBOX = load(__package__, "outbox.sql")


class PostgresManifests:
    """`ports.Manifests` over one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(
        self, *, asset_id: str, version: int, plan_id: int, prefix: str, sha256: str, document: Mapping[str, Any]
    ) -> None:
        """See `ports.Manifests.add`."""
        await self._session.change(
            _MANIFESTS["add"],
            asset_id=asset_id,
            version=version,
            plan_id=plan_id,
            prefix=prefix,
            sha256=sha256,
            document=Jsonb(dict(document)),
        )
        await self._session.change(_MANIFESTS["reserve_version"], plan_id=plan_id, version=None, contents=None)

    async def get(self, asset_id: str, version: int) -> ManifestRecord | None:
        """See `ports.Manifests.get`."""
        row = await self._session.one(_MANIFESTS["by_version"], asset_id=asset_id, version=version)
        return rows.manifest(row) if row else None

    async def of_asset(self, asset_id: str) -> Sequence[ManifestRecord]:
        """See `ports.Manifests.of_asset`."""
        return [rows.manifest(row) for row in await self._session.all(_MANIFESTS["of_asset"], asset_id=asset_id)]

    async def reserve_version(self, plan_id: int, contents: Contents) -> Reservation:
        """See `ports.Manifests.reserve_version`."""
        held = await self._session.one(_MANIFESTS["reserved_version"], plan_id=plan_id)
        if held and held["reserved_version"] is not None:
            return Reservation(held["reserved_version"], rows.contents(held["reserved_contents"]))
        row = await self._session.one(_MANIFESTS["count_up_versions"], plan_id=plan_id)
        assert row is not None  # noqa: S101 - the plan's foreign key holds the asset
        version: int = row["versions"]
        await self._session.change(
            _MANIFESTS["reserve_version"], plan_id=plan_id, version=version, contents=Jsonb(asdict(contents))
        )
        return Reservation(version, contents)

    async def of_plan(self, plan_id: int) -> ManifestRecord | None:
        """See `ports.Manifests.of_plan`."""
        row = await self._session.one(_MANIFESTS["of_plan"], plan_id=plan_id)
        return rows.manifest(row) if row else None


class PostgresDeadLetters:
    """`ports.DeadLetters` over one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(
        self, *, asset_id: str, kind: str, args: Mapping[str, Any], failure: Failure, traceback: str, attempts: int
    ) -> DeadLetterRecord:
        """See `ports.DeadLetters.add`."""
        row = await self._session.one(
            _DEAD_LETTERS["add"],
            asset_id=asset_id,
            job_kind=kind,
            job_args=Jsonb(dict(args)),
            kind=failure.kind,
            code=failure.code,
            message=failure.message,
            detail=failure.detail,
            traceback=traceback,
            attempts=attempts,
        )
        assert row is not None  # noqa: S101 - INSERT … RETURNING without ON CONFLICT gives a row or raises
        return rows.dead_letter(row)

    async def open_of(self, asset_id: str) -> Sequence[DeadLetterRecord]:
        """See `ports.DeadLetters.open_of`."""
        return [rows.dead_letter(row) for row in await self._session.all(_DEAD_LETTERS["open_of"], asset_id=asset_id)]

    async def get(self, letter_id: int, *, lock: bool = False) -> DeadLetterRecord | None:
        """See `ports.DeadLetters.get`."""
        row = await self._session.one(_DEAD_LETTERS["by_id_locked" if lock else "by_id"], id=letter_id)
        return rows.dead_letter(row) if row else None

    async def list(
        self, *, code: str | None, asset_id: str | None, decided: bool, after: int, limit: int
    ) -> Sequence[DeadLetterRecord]:
        """See `ports.DeadLetters.list`."""
        found = await self._session.all(
            _DEAD_LETTERS["list"], code=code, asset_id=asset_id, decided=decided, after=after, limit=limit
        )
        return [rows.dead_letter(row) for row in found]

    async def causes(self) -> Sequence[Cause]:
        """See `ports.DeadLetters.causes`."""
        return [
            Cause(row["code"], row["count"], row["assets"], rows.timestamp(row["oldest_at"]))
            for row in await self._session.all(_DEAD_LETTERS["causes"])
        ]

    async def decide(self, letter_id: int, resolution: Resolution, *, who: str, why: str) -> bool:
        """See `ports.DeadLetters.decide`."""
        changed = await self._session.change(
            _DEAD_LETTERS["decide"], id=letter_id, resolution=resolution, who=who, why=why
        )
        return changed == 1


class PostgresOutbox:
    """The event log."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def emit(self, event: Event, *, tenant: str = "default") -> None:
        """Write one event; the tenant is the asset's, or `tenant` where the asset is gone already."""
        await self._session.change(
            _OUTBOX["emit"], type=event.type, tenant=tenant, asset_id=event.asset_id, data=Jsonb(dict(event.data))
        )

    async def list(self, *, after: int, limit: int, asset_id: str | None) -> Sequence[Mapping[str, Any]]:
        """Events after a position, oldest first, as JSON-ready mappings."""
        found = await self._session.all(_OUTBOX["list"], after=after, limit=limit, asset_id=asset_id)
        return [{**row, "id": str(row["id"]), "occurred_at": rows.timestamp(row["occurred_at"])} for row in found]
