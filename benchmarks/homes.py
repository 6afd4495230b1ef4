"""Homes that are gone after the benchmark, database server included."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vodpress.adapters.db import embedded_keeper


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder whose `home` may hold an embedded database; it is removed when that has stopped."""
    folder = Path(tempfile.mkdtemp(prefix="vodpress-bench-"))
    try:
        yield folder
    finally:
        home = folder / "home" / "postgres"
        while home.exists() and embedded_keeper.is_held(home, embedded_keeper.KEEPER):
            time.sleep(embedded_keeper.POLL_SECONDS)
        shutil.rmtree(folder)
