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
    assert names - PROMISED == {
        "video.asset.deleted",
        "video.asset.rolled_back",
        "vodpress.node.out_of_service",
        "vodpress.node.in_service",
    }


def test_a_fact_does_not_change() -> None:
    event = Event(EventType.ASSET_READY, "a", {"version": 1})
    with pytest.raises(FrozenInstanceError):
        event.asset_id = "b"  # type: ignore[misc]


def test_every_kind_of_job_has_a_queue_and_every_queue_a_kind() -> None:
    assert set(QUEUE_OF) == set(JobKind)
    assert {*QUEUE_OF.values(), Queue.ENCODE_BULK} == set(Queue)
    for kind in JobKind:
        assert JobRequest(kind, {}, unique_key="k").queue is QUEUE_OF[kind]


def test_only_encoding_moves_aside_for_others() -> None:
    bulk = {kind: JobRequest(kind, {}, unique_key="k", bulk=True).queue for kind in JobKind}
    assert bulk == {kind: Queue.ENCODE_BULK if queue is Queue.ENCODE else queue for kind, queue in QUEUE_OF.items()}


def test_what_unblocks_others_goes_first() -> None:
    assert Priority.UNBLOCKS > Priority.NORMAL > Priority.BULK
    assert JobRequest(JobKind.ENCODE, {}, unique_key="k").priority is Priority.NORMAL
