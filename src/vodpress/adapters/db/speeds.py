"""Rows of `encode_speeds`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import Session
from vodpress.ports import EncodeSpeed

_SQL = load(__package__, "speeds.sql")
_KEPT = 1000


class PostgresSpeeds:
    """`ports.Speeds` over one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def add(self, speed: EncodeSpeed) -> None:
        """See `ports.Speeds.add`."""
        await self._session.change(_SQL["add"], **asdict(speed))
        await self._session.change(_SQL["forget"], comparable=speed.comparable, kept=_KEPT)

    async def recent(self, comparable: str, *, limit: int = 50) -> Sequence[EncodeSpeed]:
        """See `ports.Speeds.recent`."""
        return [
            EncodeSpeed(
                comparable=row["class"],
                work=row["work"],
                wall_seconds=row["wall_seconds"],
                cpu_seconds=row["cpu_seconds"],
                media_seconds=row["media_seconds"],
                node=row["node"],
            )
            for row in await self._session.all(_SQL["recent"], comparable=comparable, limit=limit)
        ]
