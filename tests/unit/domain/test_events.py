"""Names of events and of queues, which others rely on."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from vodpress.domain.events import Event, EventType
from vodpress.domain.job import QUEUE_OF, JobKind, JobRequest, Priority, Queue

PROMISED = {
    "video.upload.completed",
    "video.asset.processing",
    "video.asset.ready",
    "video.asset.errored",
    "video.asset.blocked",
    "video.rendition.completed",
    "video.rendition.failed",
    "video.manifest.published",
    "video.dead_letter.created",
    "video.dead_letter.resolved",
}


def test_the_promised_types_are_there() -> None:
    names = {str(type_) for type_ in EventType}
    assert names >= PROMISED
    assert names - PROMISED == {"video.asset.deleted"}


def test_a_fact_does_not_change() -> None:
    event = Event(EventType.ASSET_READY, "a", {"version": 1})
    with pytest.raises(FrozenInstanceError):
        event.asset_id = "b"  # type: ignore[misc]


def test_every_kind_of_job_has_a_queue_and_every_queue_a_kind() -> None:
    assert set(QUEUE_OF) == set(JobKind)
    assert set(QUEUE_OF.values()) == set(Queue)
    for kind in JobKind:
        assert JobRequest(kind, {}, unique_key="k").queue is QUEUE_OF[kind]


def test_what_unblocks_others_goes_first() -> None:
    assert Priority.UNBLOCKS > Priority.NORMAL > Priority.BULK
    assert JobRequest(JobKind.ENCODE, {}, unique_key="k").priority is Priority.NORMAL
