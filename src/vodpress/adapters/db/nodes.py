"""Rows of `nodes`."""

from __future__ import annotations

from collections.abc import Sequence

from vodpress.adapters.db import rows
from vodpress.adapters.db.named_sql import load
from vodpress.adapters.db.session import Session
from vodpress.domain.node_health import NodeState
from vodpress.ports import NodeRecord

_SQL = load(__package__, "nodes.sql")


class PostgresNodes:
    """`ports.Nodes` over one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def record(self, name: str, *, state: NodeState, reason: str) -> None:
        """See `ports.Nodes.record`."""
        await self._session.change(_SQL["record"], name=name, state=state, reason=reason)

    async def out_of_service(self) -> Sequence[NodeRecord]:
        """See `ports.Nodes.out_of_service`."""
        return [
            NodeRecord(row["name"], NodeState(row["state"]), row["reason"], rows.timestamp(row["since"]))
            for row in await self._session.all(_SQL["out_of_service"])
        ]
