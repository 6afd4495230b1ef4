"""How a run looks while it goes on: bars on a terminal, lines elsewhere, nothing where a program reads the output."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from vodpress.cli.running import printable, say
from vodpress.domain.progress import RenditionProgress, remaining_seconds
from vodpress.processing import FileRun

if TYPE_CHECKING:
    from rich.progress import TaskID

_REDRAW_SECONDS = 0.1
_LINE_EVERY = 0.1
_SAMPLES_KEPT = 60


class View(Protocol):
    """A display that is open for the length of a run."""

    def __enter__(self) -> View: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, runs: Sequence[FileRun]) -> None:
        """Show where the files are; called whenever one moved on."""
        ...


class _Pace:
    """Speed and time left of one file, from how its progress went."""

    def __init__(self) -> None:
        self._history: list[tuple[float, float]] = []

    def add(self, fraction: float) -> float | None:
        """Take the fraction done now; returns the seconds left, where they can be told."""
        now = time.monotonic()
        if not self._history or fraction > self._history[-1][1]:
            self._history.append((now, fraction))
        if len(self._history) > _SAMPLES_KEPT:
            del self._history[::2]  # thinned, so that the start stays in it
        left = remaining_seconds(self._history)
        return None if left is None else max(0.0, left - (now - self._history[-1][0]))


class SilentView:
    """Shows nothing."""

    def __enter__(self) -> SilentView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def show(self, runs: Sequence[FileRun]) -> None:
        """Nothing."""


class LineView(SilentView):
    """A line on standard error when a file enters a phase, and at every tenth of its encoding."""

    def __init__(self) -> None:
        self._said: dict[int, tuple[str, int]] = {}
        self._paces: dict[int, _Pace] = {}

    def show(self, runs: Sequence[FileRun]) -> None:
        """Say what is new."""
        for number, run in enumerate(runs):
            fraction = run.plan.progress.fraction if run.plan else 0.0
            left = self._paces.setdefault(number, _Pace()).add(fraction)
            step = int(fraction / _LINE_EVERY) if run.phase == "encoding" else 0
            if self._said.get(number) == (run.phase, step) or run.phase == "waiting":
                continue
            self._said[number] = (run.phase, step)
            extra = ""
            if run.plan and run.phase == "encoding":
                extra = f" {fraction:.0%} ({_speed(run.plan.progress.speed)}{_left(left)})"
            say(f"{run.path.name}: {run.phase}{extra}")


class LiveView(SilentView):
    """Bars on a terminal: one a rendition, and one for the whole file with its speed and the time left."""

    def __init__(self) -> None:
        # rich takes 40 ms to import, which commands without a terminal should not pay.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

        self._progress = Progress(
            TextColumn("{task.fields[label]}", markup=False),
            BarColumn(bar_width=32),
            TextColumn("{task.percentage:>3.0f} %", markup=False),
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(stderr=True),
            transient=True,
        )
        self._tasks: dict[tuple[int, str], TaskID] = {}
        self._paces: dict[int, _Pace] = {}
        self._next = 0.0

    def __enter__(self) -> LiveView:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, runs: Sequence[FileRun]) -> None:
        """Redraw, a few times a second at most."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _REDRAW_SECONDS
        for number, run in enumerate(runs):
            self._show_file(number, run)

    def _show_file(self, number: int, run: FileRun) -> None:
        if run.ended is not None:
            for key in [key for key in self._tasks if key[0] == number]:
                self._progress.remove_task(self._tasks.pop(key))
            return
        progress = run.plan.progress if run.plan else None
        fraction = progress.fraction if progress else 0.0
        left = self._paces.setdefault(number, _Pace()).add(fraction)
        note = f"{_speed(progress.speed)}{_left(left)}" if progress and run.phase == "encoding" else run.phase
        self._bar((number, ""), _short(run.path), fraction, note)
        for rendition in progress.renditions if progress else ():
            self._bar((number, rendition.name), f"  {rendition.name}", rendition.fraction, _note(rendition))

    def _bar(self, key: tuple[int, str], label: str, fraction: float, note: str) -> None:
        if key not in self._tasks:
            self._tasks[key] = self._progress.add_task("", total=1.0, label=label, note=note)
        self._progress.update(self._tasks[key], completed=fraction, label=label, note=note)


def _short(path: Path) -> str:
    name = printable(path.name)
    return name if len(name) <= 28 else f"{name[:20]}…{name[-7:]}"


def _note(rendition: RenditionProgress) -> str:
    size = f"{rendition.width}×{rendition.height} " if rendition.width else ""
    return f"{size}{rendition.state}"


def _speed(speed: float) -> str:
    return f"{speed:.2f}× real time" if speed else "starting"


def _left(seconds: float | None) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f", {minutes}:{rest:02d} left" if minutes < 60 else f", {minutes // 60} h {minutes % 60:02d} min left"
