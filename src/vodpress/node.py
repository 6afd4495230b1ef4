"""This node in the eyes of its workers: it takes itself out of service when job after job fails on it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from vodpress.domain.events import Event, EventType
from vodpress.domain.failure import Failure, FailureKind
from vodpress.domain.node_health import NodeHealth, NodeState
from vodpress.ports import UnitOfWork

_log = structlog.get_logger(__name__)


class Node:
    """What the workers of one process ask before they take a job, and tell when one has ended.

    Args:
        name: the machine's, on record with its state.
        clock: seconds that only go forward.
    """

    def __init__(self, name: str, work: UnitOfWork, *, clock: Callable[[], float]) -> None:
        self._name = name
        self._work = work
        self._clock = clock
        self._health = NodeHealth()
        self._watching = False

    def watch(self) -> None:
        """Begin: a service can do without one of its nodes, a single run over files cannot."""
        self._watching = True

    def take(self) -> bool:
        """Whether a job may be taken now. On trial, one at a time: `give_back` says that it was none, or has ended."""
        if self._watching and not self._health.may_take(self._clock()):
            return False
        self._health = self._health.taken()
        return True

    def give_back(self) -> None:
        """The job that was to be taken was not there, or has ended."""
        self._health = self._health.given_back()

    async def ended(self, kind: str, asset_id: str, failure: Failure | None) -> None:
        """A job of an asset was done, or failed. Only failures of the infrastructure say something of the node."""
        if not self._watching:
            return
        before = self._health.state
        if failure is None:
            self._health = self._health.after_success(kind)
        elif failure.kind is FailureKind.INFRASTRUCTURE:
            self._health = self._health.after_failure(kind, asset_id, failure.code, now=self._clock())
        if self._health.state is not before:
            await self._tell()

    async def _tell(self) -> None:
        health = self._health
        out = health.state is not NodeState.IN_SERVICE
        tell = _log.error if out else _log.info
        tell("node out of service" if out else "node in service", node=self._name, reason=health.reason)
        data = {"node": self._name, "state": health.state, "reason": health.reason}
        try:
            async with self._work.begin() as transaction:
                await transaction.nodes.record(self._name, state=health.state, reason=health.reason)
                type_ = EventType.NODE_OUT_OF_SERVICE if out else EventType.NODE_IN_SERVICE
                await transaction.emit(Event(type_, f"node/{self._name}", data))
        except Failure as failure:
            _log.warning("the node's state could not be recorded", code=failure.code, detail=failure.detail)
