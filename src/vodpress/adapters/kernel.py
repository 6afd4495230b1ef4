"""What only the kernel knows or does: ending children with their parent, and counting those it ended for memory."""

from __future__ import annotations

import ctypes
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_COUNTERS = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))


def die_with_parent() -> None:
    """Have this process killed when its parent dies, where the platform can (Linux). Safe between fork and exec."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def memory_kills() -> int:
    """How often the kernel has ended a process for want of memory, on this machine and in this control group."""
    count = 0
    for path in _COUNTERS:
        try:
            lines = path.read_text().splitlines()
        except OSError:  # not Linux, or not readable in this container: then it cannot be told from a crash
            continue
        count += sum(int(line.split()[1]) for line in lines if line.split()[:1] == ["oom_kill"])
    return count
