"""`vodpress worker`: serve queues, as one of any number of processes over one database."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

import typer

from vodpress.bootstrap import open_platform
from vodpress.cli.running import run, stop_on_signals
from vodpress.domain.job import Queue
from vodpress.settings import Settings
from vodpress.worker import parse_queues, serve


def worker(
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUEUE=NUMBER",
            help="Serve this queue with so many jobs at once; may be repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Work on jobs until SIGTERM or SIGINT.

    Then nothing new is taken, what runs has VODPRESS_GRACE_SECONDS to end, and the rest is handed back at once, without
    losing an attempt. Without --queue all queues are served, with as many jobs as the settings say.

    \b
    Examples:
      vodpress worker
      vodpress worker --queue encode=2 --queue light=4
    """
    run(lambda settings: _work(settings, parse_queues(queue or [])), as_json=False)


async def _work(settings: Settings, queues: Mapping[Queue, int]) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with open_platform(settings) as platform:
        await serve(platform, stop, queues)
