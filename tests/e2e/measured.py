"""Runs the `vodpress` command as its console script does, and writes down the peak of this one process's memory.

    python -P measured.py FILE ARGUMENT...

FILE receives the kernel's own mark (`VmHWM`, bytes) as the last thing the process does. A parent could not learn it:
what `wait4` gives is the largest of the process and all its children, and a look from outside may come too early.
"""

from __future__ import annotations

import atexit
import re
import sys
from pathlib import Path

from vodpress.cli.main import main


def _write_peak(target: Path) -> None:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    target.write_text(str(int(found[1]) * 1024) if found else "")


atexit.register(_write_peak, Path(sys.argv.pop(1)))
main()
