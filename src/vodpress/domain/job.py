"""The vocabulary of jobs: kinds, queues, outcomes and the life of a job as the queue sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from vodpress.domain.lifecycle import Lifecycle


class Queue(StrEnum):
    """Queues keep long work from standing in the way of short work, and bulk work from standing in anyone's."""

    INGEST = "ingest"
    ENCODE = "encode"
    ENCODE_BULK = "encode_bulk"
    LIGHT = "light"


class JobKind(StrEnum):
    """Kinds of job, in pipeline order; each is one file of `stages/`."""

    INGEST = "ingest"
    ENCODE = "encode"
    STITCH = "stitch"
    THUMBNAILS = "thumbnails"
    PACKAGE = "package"


QUEUE_OF = {
    JobKind.INGEST: Queue.INGEST,
    JobKind.ENCODE: Queue.ENCODE,
    JobKind.STITCH: Queue.ENCODE,
    JobKind.THUMBNAILS: Queue.LIGHT,
    JobKind.PACKAGE: Queue.LIGHT,
}


class Priority(IntEnum):
    """Order inside a queue; higher goes first."""

    BULK = -10
    NORMAL = 0
    EARLY = 5
    UNBLOCKS = 10


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to enqueue.

    Attributes:
        unique_key: while a job with this key is waiting or running, a second one is not enqueued.
        bulk: whether encoding may wait until no other encode job does.
    """

    kind: JobKind
    args: Mapping[str, Any]
    unique_key: str
    priority: Priority = Priority.NORMAL
    bulk: bool = False

    @property
    def queue(self) -> Queue:
        """The queue its kind belongs to."""
        queue = QUEUE_OF[self.kind]
        return Queue.ENCODE_BULK if self.bulk and queue is Queue.ENCODE else queue


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's hold on a job. Only the live claim may settle the job.

    Attributes:
        claim_id: new at every fetch; also the lease token on rows that the job works on.
        attempt: 1 for the first try; counted when the job is fetched, before any work.
    """

    job_id: int
    claim_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Done:
    """The handler finished; its transaction settled the job."""


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not yet: come back after `seconds`; not counted as an attempt."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Discard:
    """The work is moot: the asset was deleted or somebody else finished it."""

    reason: str


Outcome = Done | Snooze | Discard


class JobState(StrEnum):
    """Where a job stands, with the queue engine's names."""

    TODO = "todo"
    DOING = "doing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


JOB = Lifecycle(
    name="procrastinate_jobs",
    initial=JobState.TODO,
    moves={
        JobState.TODO: {
            JobState.DOING: "a worker fetched it; the attempt is counted now",
            JobState.CANCELLED: "its asset was deleted",
        },
        JobState.DOING: {
            JobState.SUCCEEDED: "done, in the transaction of its result",
            JobState.TODO: "retry after a failure, snooze, hand-back, or rescue from a dead worker",
            JobState.FAILED: "out of attempts or never to succeed: a dead letter",
            JobState.CANCELLED: "its asset was deleted",
        },
        JobState.SUCCEEDED: {},
        JobState.FAILED: {JobState.TODO: "a person asked for another try"},
        JobState.CANCELLED: {},
    },
)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as `queue list` shows it."""

    id: int
    kind: str
    queue: str
    state: JobState
    attempt: int
    args: Mapping[str, Any] = field(default_factory=dict)
