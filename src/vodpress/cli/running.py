"""What every command shares: settings, the event loop, and how errors become sentences and exit statuses."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from vodpress.domain.failure import ExitCode, Failure, InvalidRequest
from vodpress.settings import Settings, load_settings
from vodpress.telemetry import configure_logging

Result = TypeVar("Result")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")]

EXIT_STATUSES = """\b
Exit status: 0 done · 2 wrong usage · 5 infrastructure failed · 6 the content is at fault
7 not yet (a resource is missing right now) · 8 something waits for a decision · 130 interrupted"""


def run(
    command: Callable[[Settings], Coroutine[Any, Any, Result]],
    *,
    as_json: bool,
    instead: Callable[[InvalidRequest | Failure], Result] | None = None,
) -> Result:
    """Run a command's coroutine with the settings; end the process with the right status when it fails.

    Args:
        instead: makes the result of a command that failed, for a caller that ends the process itself.
    """
    try:
        settings = load_settings()
        configure_logging(settings.log_level, settings.log_format)
        return asyncio.run(command(settings))
    except (InvalidRequest, Failure) as error:
        if instead is None:
            fail(error, as_json=as_json)
        _say_why(error)
        return instead(error)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` when the process is asked to end."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)


def fail(error: InvalidRequest | Failure, *, as_json: bool) -> NoReturn:
    """Say what went wrong and end the process with the status that the error stands for."""
    if as_json:
        print_json({"exit_code": int(error.exit_code), "reason": {"code": error.code, "message": error.message}})
    _say_why(error)
    raise typer.Exit(int(error.exit_code))


def _say_why(error: InvalidRequest | Failure) -> None:
    remedy = error.entry.remedy if isinstance(error, Failure) else ""
    say(f"vodpress: {error.message} ({error.code})" + (f" {remedy}" if remedy else ""))
    if isinstance(error, Failure) and error.detail:
        say(_indented(error.detail))


def print_json(document: object) -> None:
    """One JSON document on standard output, in ASCII: names of files may be in no encoding at all."""
    _write(json.dumps(document, default=str) + "\n")


def print_lines(*lines: str) -> None:
    """Lines for people on standard output; control characters in them are shown, not obeyed."""
    _write("".join(printable(line) + "\n" for line in lines))


def _write(text: str) -> None:
    """Write to standard output; end the process, without a traceback, when nobody reads it or its disk is full."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer must not be tried again at the end, which would change the exit status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            say(f"vodpress: standard output cannot be written: {error.strerror}.")
        raise typer.Exit(int(ExitCode.INFRASTRUCTURE)) from error


def print_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> None:
    """A plain table on standard output."""
    cells = [
        columns,
        *([str(row.get(column) if row.get(column) is not None else "-") for column in columns] for row in rows),
    ]
    widths = [max(len(line[place]) for line in cells) for place in range(len(columns))]
    print_lines(
        *("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells)
    )


def say(text: str) -> None:
    """A line for people on standard error. Where that cannot be written, there is no place left to say so."""
    with suppress(OSError):
        sys.stderr.write("\n".join(printable(line) for line in text.splitlines()) + "\n")
        sys.stderr.flush()


def printable(text: str) -> str:
    """`text` without control characters: titles and file names come from strangers."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
