"""The `vodpress` command."""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from vodpress.cli import asset, dead_letter, inspection, installation, process, records, submit, worker
from vodpress.cli.running import EXIT_STATUSES

app = typer.Typer(
    name="vodpress",
    help="Turn videos into verified adaptive streams: HLS and DASH, thumbnails, a manifest with checksums.",
    epilog=EXIT_STATUSES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.command("process", epilog=EXIT_STATUSES)(process.process)
app.command("submit", epilog=EXIT_STATUSES)(submit.submit)
app.command("worker", epilog=EXIT_STATUSES)(worker.worker)
app.command("probe", epilog=EXIT_STATUSES)(inspection.probe)
app.command("plan", epilog=EXIT_STATUSES)(inspection.plan)
app.add_typer(asset.app, name="asset")
app.add_typer(dead_letter.app, name="dead-letter")
app.add_typer(records.events, name="events")
app.add_typer(records.queue, name="queue")
app.command("migrate", epilog=EXIT_STATUSES)(installation.migrate)
app.command("doctor", epilog=EXIT_STATUSES)(installation.doctor)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vodpress {version('vodpress')}")
        raise typer.Exit


@app.callback()
def _start(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    del show_version  # its callback has ended the command


def _open_standard_streams() -> None:
    """Put nothing in place of standard streams that were closed: a database connection must not take their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def main() -> None:
    """Entry point of the console script."""
    _open_standard_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that lacks a letter must not end a command
    app()
