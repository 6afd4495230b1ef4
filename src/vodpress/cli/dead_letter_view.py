"""Dead letters as rows and JSON documents."""

from __future__ import annotations

from typing import Any

from vodpress.domain.deadletter import Cause
from vodpress.domain.failure import CODES
from vodpress.ports import DeadLetterRecord


def remedy(code: str) -> str:
    """What a person can do about a code."""
    return CODES[code].remedy if code in CODES else "Another release wrote this code; see its documentation."


def group(cause: Cause) -> dict[str, Any]:
    """One cause with the number of its dead letters."""
    return {
        "code": cause.code,
        "count": cause.count,
        "assets": cause.assets,
        "oldest_at": cause.oldest_at,
        "remedy": remedy(cause.code),
    }


def row(letter: DeadLetterRecord) -> dict[str, Any]:
    """One line of a list."""
    return {
        "id": letter.id,
        "asset": letter.asset_id,
        "job": letter.job_kind,
        "kind": letter.kind,
        "code": letter.code,
        "message": letter.message,
        "attempts": letter.attempts,
        "created_at": letter.created_at,
        "state": letter.resolution or "undecided",
    }


def document(letter: DeadLetterRecord) -> dict[str, Any]:
    """Everything about one."""
    return {
        **row(letter),
        "args": letter.job_args,
        "remedy": remedy(letter.code),
        "detail": letter.detail,
        "traceback": letter.traceback,
        "resolution": letter.resolution,
        "resolved_at": letter.resolved_at,
        "decided_by": letter.decided_by,
        "decided_why": letter.decided_why,
    }
