"""Ladders by name or by file: those that come with vodpress, those in the home, and any TOML file."""

from __future__ import annotations

import difflib
import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from vodpress.domain.failure import InvalidRequest
from vodpress.domain.ladder import Ladder, parse_ladder

_FOLDER = "ladders"


def load_ladder(name_or_file: str, *, home: Path) -> Ladder:
    """The ladder with that name (`<home>/ladders/NAME.toml` before the built-in ones), or from that TOML file.

    Raises:
        InvalidRequest: `unknown_ladder`, with the nearest name; or `invalid_ladder`, with every fault in the file.
    """
    if name_or_file.endswith(".toml") or "/" in name_or_file:
        path = Path(name_or_file).expanduser()
        if not path.is_file():
            raise InvalidRequest("unknown_ladder", f"There is no ladder file {path}.")
        return _read(path, origin=str(path))
    known = _known(home)
    if name_or_file not in known:
        near = difflib.get_close_matches(name_or_file, known, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known ladders: {', '.join(sorted(known))}."
        raise InvalidRequest("unknown_ladder", f"There is no ladder '{name_or_file}'; {hint}")
    return _read(known[name_or_file], origin=f"ladder '{name_or_file}'")


def _known(home: Path) -> dict[str, Traversable]:
    folders: list[Traversable] = [resources.files("vodpress").joinpath(_FOLDER), home / _FOLDER]
    return {
        entry.name.removesuffix(".toml"): entry
        for folder in folders
        if folder.is_dir()
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }


def _read(file: Traversable, *, origin: str) -> Ladder:
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest("invalid_ladder", f"{origin}: no valid TOML: {error}") from error
    except OSError as error:
        raise InvalidRequest("invalid_ladder", f"{origin}: {error.strerror}") from error
    return parse_ladder(document, origin=origin)
