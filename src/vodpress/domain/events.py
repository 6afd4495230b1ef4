"""Facts that are told to others. Each is an outbox row written in the transaction that made it true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class EventType(StrEnum):
    """Stable names; a CloudEvents `type` each."""

    UPLOAD_COMPLETED = "video.upload.completed"
    ASSET_PROCESSING = "video.asset.processing"
    ASSET_READY = "video.asset.ready"
    ASSET_ERRORED = "video.asset.errored"
    ASSET_BLOCKED = "video.asset.blocked"
    ASSET_DELETED = "video.asset.deleted"
    ASSET_ROLLED_BACK = "video.asset.rolled_back"
    RENDITION_COMPLETED = "video.rendition.completed"
    RENDITION_FAILED = "video.rendition.failed"
    MANIFEST_PUBLISHED = "video.manifest.published"
    NODE_OUT_OF_SERVICE = "vodpress.node.out_of_service"
    NODE_IN_SERVICE = "vodpress.node.in_service"
    DEAD_LETTER_CREATED = "video.dead_letter.created"
    DEAD_LETTER_RESOLVED = "video.dead_letter.resolved"


@dataclass(frozen=True, slots=True)
class Event:
    """One fact about one asset, or with `node/NAME` in the asset's place about a node. `data` is JSON."""

    type: EventType
    asset_id: str
    data: Mapping[str, Any]
