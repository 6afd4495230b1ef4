"""The life cycles as a page: `python -m vodpress.domain.diagrams` prints `docs/reference/states.md`."""

from __future__ import annotations

import sys

from vodpress.domain.asset import ASSET
from vodpress.domain.job import JOB
from vodpress.domain.lifecycle import Lifecycle, State
from vodpress.domain.node_health import NODE
from vodpress.domain.rendition import PLAN, RENDITION, SLICE

_HEAD = """\
# States

Generated from the transition tables in `src/vodpress/domain/` by `make docs`; do not edit.

A state changes only along an arrow: every change is an `UPDATE … WHERE state IN (…)` whose list comes from the table
below. Whoever comes second finds nothing to change.
"""


def page() -> str:
    """The whole page, in Markdown with Mermaid diagrams."""
    return "\n".join(
        [
            _HEAD,
            _chapter("Asset", ASSET, "One video as its owner knows it. A published one stays `ready` from then on."),
            _chapter("Plan", PLAN, "The renditions chosen for one source with one ladder, as a whole."),
            _chapter("Rendition", RENDITION, "One rung of a plan; each fails, retries and finishes alone."),
            _chapter("Slice", SLICE, "A stretch of time of one rendition, held under a lease while it is encoded."),
            _chapter("Node", NODE, "A machine as its workers see it."),
            _chapter("Job", JOB, "A unit of work as the queue delivers it, at least once."),
        ]
    )


def _chapter(title: str, lifecycle: Lifecycle[State], sentence: str) -> str:
    return "\n".join(
        [
            f"## {title}",
            "",
            f"{sentence} Table `{lifecycle.name}`.",
            "",
            "```mermaid",
            diagram(lifecycle),
            "```",
            "",
            table(lifecycle),
            "",
        ]
    )


def diagram(lifecycle: Lifecycle[State]) -> str:
    """A Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {lifecycle.initial}"]
    for source, moves in lifecycle.moves.items():
        lines += [f"    {source} --> {target}" for target in moves]
        if lifecycle.is_final(source):
            lines.append(f"    {source} --> [*]")
    return "\n".join(lines)


def table(lifecycle: Lifecycle[State]) -> str:
    """A Markdown table of every allowed change and its reason."""
    rows = [
        f"| `{source}` | `{target}` | {reason} |"
        for source, moves in lifecycle.moves.items()
        for target, reason in moves.items()
    ]
    return "\n".join(["| from | to | when |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    sys.stdout.write(page())
