"""Dead letters: work that waits for a person, and what a person may decide."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Resolution(StrEnum):
    """What was decided. Every decision is recorded with who took it and why."""

    RETRY = "retry"
    WAIVE = "waive"
    FAIL = "fail"
    REPLACE_SOURCE = "replace_source"


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides, and the reason given."""

    who: str
    why: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Undecided dead letters that have a code in common. Times are ISO 8601, UTC."""

    code: str
    count: int
    assets: int
    oldest_at: str
