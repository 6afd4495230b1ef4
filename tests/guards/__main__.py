"""Take each guard away in a copy of the sources, and see that a test fails: `python -m tests.guards [WORD]…`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.guards.listed import PACKAGE, Guard, guards, take_away

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 600
FAILED = 1
"""Exit status of pytest when tests ran and some failed."""


def is_noticed(guard: Guard) -> bool:
    """Whether a test fails without the guard; it must be a failure, not an interruption or a missing test."""
    with tempfile.TemporaryDirectory(prefix="vodpress-guards-") as folder:
        copy = Path(folder) / "src" / "vodpress"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        take_away(guard, copy)
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--timeout=90", *guard.tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy.parent)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    red = [line.removeprefix("FAILED ").split(" - ")[0] for line in ended.stdout.splitlines() if line[:7] == "FAILED "]
    print(f"      {red[0] if red else ended.stdout[-2000:]}")
    return ended.returncode == FAILED and bool(red)


def main() -> int:
    wanted = [guard for guard in guards() if all(word in guard.name for word in sys.argv[1:])]
    unnoticed = []
    for guard in wanted:
        begun = time.monotonic()
        print(f"without: {guard.name}", flush=True)
        if not is_noticed(guard):
            unnoticed.append(guard.name)
            print("      NO TEST NOTICED")
        print(f"      {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{len(wanted) - len(unnoticed)} of {len(wanted)} guards are noticed when they are gone.")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
