"""The rules of the source tree that no type checker knows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "vodpress"
SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".sql"})
MOST_LINES = 300
SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc", "base", "core", "shared"}


def test_imports_keep_their_direction() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    ended = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_sources_were_found() -> None:
    assert PACKAGE / "domain" / "lifecycle.py" in SOURCES


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(PACKAGE)) for path in SOURCES])
def test_a_file_holds_one_idea(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{path.relative_to(ROOT)} has {lines} lines; find the second idea and give it a file"


def test_names_say_what_is_inside() -> None:
    vague = [str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*") if path.stem.lower() in SAY_NOTHING]
    assert vague == []


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.suffix == ".py" and not path.read_text(encoding="utf-8").startswith('"""')
    ]
    assert silent == []
