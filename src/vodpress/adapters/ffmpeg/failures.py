"""From how a tool ended to whose fault it was."""

from __future__ import annotations

import re
import signal

from vodpress.adapters.process import ToolExit
from vodpress.domain.failure import Failure

# Looked for in this order: a full disk or a lack of memory also makes a tool complain about the data.
_SAID = (
    ("disk_full", re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)),
    ("out_of_memory", re.compile(r"cannot allocate memory|error allocating|malloc of size", re.IGNORECASE)),
    (
        "codec_unsupported",
        re.compile(r"decoder .*not found|no decoder for|unsupported codec|decoding requested, but no decoder", re.I),
    ),
    (
        "source_corrupt",
        re.compile(
            r"invalid data found|error while decoding|moov atom not found|error submitting packet to decoder|"
            r"decode error|corrupt|invalid nal|error splitting|header missing|partial file|"
            r"task finished with error code: -1094995529",
            re.IGNORECASE,
        ),
    ),
)


def classify(ended: ToolExit, *, subject: str = "") -> Failure:
    """The failure for a tool that did not end well.

    Killed by SIGKILL although nobody of ours did it means, on Linux, the kernel's out-of-memory killer as a rule;
    `ToolExit.kernel_killed_for_memory` says whether the kernel counted one meanwhile.
    """
    detail = ended.describe()
    if ended.signal_number is not None:
        if ended.signal_number == signal.SIGKILL and ended.kernel_killed_for_memory:
            return Failure(
                "out_of_memory",
                f"The kernel killed {ended.tool} at {ended.peak_memory_bytes / 1e6:.0f} MB because memory ran out.",
                detail=detail,
                subject=subject,
            )
        if ended.signal_number == signal.SIGXFSZ:
            message = f"{ended.tool} reached the limit on the size of a file."
            return Failure("disk_full", message, detail=detail, subject=subject)
        return Failure(
            "tool_crashed", f"{ended.tool} was ended by signal {ended.signal_number}.", detail=detail, subject=subject
        )
    for code, said in _SAID:
        if said.search(ended.stderr_tail):
            return Failure(code, detail=detail, subject=subject)
    return Failure(
        "tool_crashed", f"{ended.tool} ended with exit status {ended.status}.", detail=detail, subject=subject
    )
