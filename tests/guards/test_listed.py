"""The list follows the code: what `make guards` takes away is there, and so are the tests that must notice."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from tests.guards.listed import PACKAGE, Guard, guards, take_away

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("guard", guards(), ids=lambda guard: guard.name)
def test_a_guard_can_be_taken_away(guard: Guard, tmp_path: Path) -> None:
    copy = tmp_path / guard.file
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(PACKAGE / guard.file, copy)
    take_away(guard, tmp_path)
    if copy.suffix == ".py":
        ast.parse(copy.read_text(encoding="utf-8"))
    assert guard.tests
    assert all((ROOT / test).exists() for test in guard.tests)


def test_names_are_told_apart() -> None:
    names = [guard.name for guard in guards()]
    assert len(set(names)) == len(names)
