"""A node that takes itself out of service when jobs of different assets fail on it in a row, and tries again later.

So that one bad machine, with a broken disk or a missing library, cannot use up everyone's attempts. Only failures of
the infrastructure count; content that is at fault and jobs that have to wait say nothing of the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from vodpress.domain.lifecycle import Lifecycle

THRESHOLD = 5
"""Failures in a row, of one kind of job."""
ASSETS = 3
"""Of so many different assets: one poisonous file is not the node's fault."""
FIRST_WAIT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 900.0


class NodeState(StrEnum):
    """Whether a node takes jobs."""

    IN_SERVICE = "in_service"
    OUT_OF_SERVICE = "out_of_service"
    ON_TRIAL = "on_trial"


NODE = Lifecycle(
    name="nodes",
    initial=NodeState.IN_SERVICE,
    moves={
        NodeState.IN_SERVICE: {
            NodeState.OUT_OF_SERVICE: "jobs of different assets failed in a row for infrastructure reasons"
        },
        NodeState.OUT_OF_SERVICE: {
            NodeState.ON_TRIAL: "the wait is over, and one job was taken",
            NodeState.IN_SERVICE: "a job of the kind that failed was running already, and succeeded",
        },
        NodeState.ON_TRIAL: {
            NodeState.IN_SERVICE: "a job of the kind that failed succeeded",
            NodeState.OUT_OF_SERVICE: "the job on trial failed, too; the next wait is twice as long",
        },
    },
)


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """What is known of a node; every method gives the state that follows.

    Attributes:
        failures: `(job kind, asset, code)` of the latest failures in a row of each kind, oldest first.
        busy: jobs that were taken and have not ended.
        retry_at: when a job may be tried again, in seconds of the caller's clock.
    """

    state: NodeState = NodeState.IN_SERVICE
    failures: tuple[tuple[str, str, str], ...] = ()
    busy: int = 0
    wait_seconds: float = FIRST_WAIT_SECONDS
    retry_at: float = 0.0

    def may_take(self, now: float) -> bool:
        """Whether a job may be taken: any in service, one at a time on trial, none before the wait is over."""
        match self.state:
            case NodeState.IN_SERVICE:
                return True
            case NodeState.OUT_OF_SERVICE:
                return now >= self.retry_at and self.busy == 0
            case NodeState.ON_TRIAL:
                return self.busy == 0

    def taken(self) -> NodeHealth:
        """A job is being taken."""
        state = NodeState.ON_TRIAL if self.state is NodeState.OUT_OF_SERVICE else self.state
        return replace(self, state=state, busy=self.busy + 1)

    def given_back(self) -> NodeHealth:
        """A job that was taken has ended, or there was none."""
        return replace(self, busy=max(0, self.busy - 1))

    def after_success(self, kind: str) -> NodeHealth:
        """A job was done: whatever was wrong with its kind is over; a node may encode nothing and yet probe well."""
        rest = tuple(failure for failure in self.failures if failure[0] != kind)
        if any(_is_too_many(rest, other) for other, _, _ in rest):
            return replace(self, failures=rest)
        return NodeHealth(failures=rest, busy=self.busy)

    def after_failure(self, kind: str, asset_id: str, code: str, *, now: float) -> NodeHealth:
        """A job of an asset failed for a reason that is not in its file."""
        of_kind = [*(failure for failure in self.failures if failure[0] == kind), (kind, asset_id, code)][-THRESHOLD:]
        failures = (*(failure for failure in self.failures if failure[0] != kind), *of_kind)
        if self.state is NodeState.OUT_OF_SERVICE:
            return replace(self, failures=failures)  # it was running before, and says nothing new
        if self.state is NodeState.ON_TRIAL:
            wait = min(2 * self.wait_seconds, LONGEST_WAIT_SECONDS)
        elif _is_too_many(failures, kind):
            wait = FIRST_WAIT_SECONDS
        else:
            return replace(self, failures=failures)
        return replace(self, state=NodeState.OUT_OF_SERVICE, failures=failures, wait_seconds=wait, retry_at=now + wait)

    @property
    def reason(self) -> str:
        """Why it is out of service, for people; empty in service."""
        if self.state is NodeState.IN_SERVICE:
            return ""
        codes = ", ".join(sorted({f"{kind}: {code}" for kind, _, code in self.failures}))
        assets = len({asset for _, asset, _ in self.failures})
        return (
            f"{len(self.failures)} jobs of {assets} assets failed in a row ({codes}). "
            f"One job is tried after {self.wait_seconds:.0f} s."
        )


def _is_too_many(failures: Sequence[tuple[str, str, str]], kind: str) -> bool:
    assets = [asset for failed, asset, _ in failures if failed == kind]
    return len(assets) >= THRESHOLD and len(set(assets)) >= ASSETS
