"""Pages that are made from the code say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize(
    ("module", "page"),
    [
        ("vodpress.domain.diagrams", "states.md"),
        ("vodpress.domain.failure_table", "failures.md"),
        ("vodpress.settings_page", "settings.md"),
    ],
)
def test_a_generated_page_is_up_to_date(module: str, page: str) -> None:
    made = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True, timeout=60, check=True)
    assert (REFERENCE / page).read_text(encoding="utf-8") == made.stdout, f"run `make docs`: {page} is out of date"
