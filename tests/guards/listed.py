"""The guards of `guards.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import vodpress

PACKAGE = Path(vodpress.__file__).parent
LIST = Path(__file__).with_name("guards.toml")


@dataclass(frozen=True)
class Guard:
    """A piece of a source file without which something that must never happen can happen."""

    name: str
    file: str
    before: str
    after: str
    tests: list[str]


def guards() -> list[Guard]:
    """Every guard there is a test for."""
    return [Guard(**entry) for entry in tomllib.loads(LIST.read_text())["guards"]]


def take_away(guard: Guard, package: Path) -> None:
    """Replace the guard in a copy of the package.

    Raises:
        AssertionError: it is not there exactly once: the list has to follow the code.
    """
    path = package / guard.file
    text = path.read_text(encoding="utf-8")
    found = text.count(guard.before)
    assert found == 1, f"{guard.name!r} is {found} times in {guard.file}; correct tests/guards/guards.toml"
    path.write_text(text.replace(guard.before, guard.after), encoding="utf-8")
