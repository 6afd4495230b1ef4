"""How fast encode jobs are: kept for estimates, and to notice a job that is much slower than usual."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import structlog

from vodpress.domain.plan import Plan, Slice
from vodpress.ports import EncodeReport, EncodeSpeed, RenditionRecord, Transaction

_ENOUGH = 5  # before one can be called slow

_log = structlog.get_logger(__name__)


def comparable(plan: Plan, kind: str) -> str:
    """What encode jobs must have in common to say something of each other's speed."""
    return f"{kind}:{plan.rungs[0].codec}:{plan.preset}" if kind == "video" else kind


def measure(
    plan: Plan, part: Slice | None, group: Sequence[RenditionRecord], made: EncodeReport, *, node: str
) -> EncodeSpeed:
    """The speed of a run that encoded a slice, or with `None` the audio, for a group of renditions."""
    share = part.frames / plan.frames if part else 1.0
    return EncodeSpeed(
        comparable=comparable(plan, group[0].kind),
        work=sum(rendition.weight for rendition in group) * share,
        wall_seconds=max(made.wall_seconds, 1e-3),
        cpu_seconds=made.cpu_seconds,
        media_seconds=float(plan.duration_seconds) * share,
        node=node,
    )


async def keep(transaction: Transaction, speed: EncodeSpeed) -> None:
    """Keep a speed, and warn when it is under half of what is usual."""
    rates = [known.rate for known in await transaction.speeds.recent(speed.comparable)]
    await transaction.speeds.add(speed)
    if len(rates) >= _ENOUGH and speed.rate < statistics.median(rates) / 2:
        _log.warning(
            "encode was slow",
            node=speed.node,
            comparable=speed.comparable,
            rate=round(speed.rate),
            usual_rate=round(statistics.median(rates)),
        )
