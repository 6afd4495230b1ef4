"""The catalogue of failures as a page: `python -m vodpress.domain.failure_table` prints docs/reference/failures.md."""

from __future__ import annotations

import sys

from vodpress.domain.failure import CODES, REQUEST_CODES, ExitCode, FailureKind

_STATUSES = {
    ExitCode.DONE: "done",
    ExitCode.USAGE: "wrong usage; nothing was started",
    ExitCode.INFRASTRUCTURE: "infrastructure failed; no verdict on the file",
    ExitCode.CONTENT: "the content is at fault; trying again as it is will not help",
    ExitCode.NOT_YET: "not yet: a resource is missing right now",
    ExitCode.WAITS_FOR_DECISION: "finished, but something waits for a human decision",
    ExitCode.INTERRUPTED: "interrupted; the same command goes on from what is finished",
}
_KINDS = {
    FailureKind.INFRASTRUCTURE: "Infrastructure: retried with growing waits, then a dead letter; the asset stays "
    "`processing` and shows as blocked.",
    FailureKind.CONTENT: "Content: a source that cannot be read makes the asset `errored` at once; a slice is tried up "
    "to 3 times.",
    FailureKind.NOT_YET: "Not yet: waits, and does not count as an attempt.",
}


def page() -> str:
    """The whole page, Markdown."""
    lines = [
        "# Exit statuses and failure codes",
        "",
        "Generated from `vodpress.domain.failure` by `make docs`; do not edit. These tables are an API: a code or a",
        "status never changes its meaning. Of several files, the gravest status is that of the command, in the order",
        "0, 7, 8, 6, 5, 2, 130.",
        "",
        "| exit status | meaning |",
        "| --- | --- |",
        *(f"| {int(status)} | {meaning} |" for status, meaning in _STATUSES.items()),
    ]
    for kind, what in _KINDS.items():
        lines += [
            "",
            f"## {what.split(':')[0]}",
            "",
            what,
            "",
            "| code | what happened | what to do |",
            "| --- | --- | --- |",
        ]
        lines += [f"| `{e.code}` | {e.sentence} | {e.remedy} |" for e in CODES.values() if e.kind is kind]
    lines += ["", "## Wrong usage", "", "| code | what is wrong |", "| --- | --- |"]
    lines += [f"| `{code}` | {sentence} |" for code, sentence in REQUEST_CODES.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
