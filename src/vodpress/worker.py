"""A worker: serves queues until it is told to stop, then finishes or hands back what runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from vodpress.bootstrap import Platform
from vodpress.domain.failure import InvalidRequest
from vodpress.domain.job import Queue

_MOST_JOBS = 1024

_log = structlog.get_logger(__name__)


def parse_queues(wanted: list[str]) -> dict[Queue, int]:
    """Read `encode=2`, one for each queue to serve.

    Raises:
        InvalidRequest: code `invalid_queue`.
    """
    concurrency: dict[Queue, int] = {}
    for text in wanted:
        name, _, number = text.partition("=")
        if name not in set(Queue) or not number.isdecimal() or not 1 <= int(number) <= _MOST_JOBS:
            names = ", ".join(Queue)
            raise InvalidRequest(
                "invalid_queue",
                f"'{text}' is not QUEUE=NUMBER: a queue is one of {names}, a number is from 1 to {_MOST_JOBS}.",
            )
        if Queue(name) in concurrency:
            raise InvalidRequest("invalid_queue", f"The queue {name} is named twice.")
        concurrency[Queue(name)] = int(number)
    return concurrency


async def serve(platform: Platform, stop: asyncio.Event, queues: Mapping[Queue, int]) -> None:
    """Serve these queues, or where none is named all of them as the settings say, until `stop` is set."""
    serving = dict(queues) or platform.default_concurrency
    _log.info("worker serves", node=platform.settings.node, queues={str(queue): n for queue, n in serving.items()})
    platform.node.watch()
    await platform.work_on_jobs(stop, concurrency=serving)
    _log.info("worker ended")
