"""SQL lives in `.sql` files beside the module that runs it; this reads them.

A file is a sequence of blocks:

    -- name: find_asset
    -- The asset with this id, whatever its state.
    SELECT * FROM assets WHERE id = %(asset_id)s

Lines that start with `--` are dropped (a `%` in them would be taken for a parameter), so a text literal must not
contain such a line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import LiteralString

_NAME = re.compile(r"--\s*name\s*:\s*(?P<name>.*?)\s*")


class Queries(Mapping[str, LiteralString]):
    """The queries of one file by name: `queries["find_asset"]` or `queries.find_asset`.

    Raises `KeyError` or `AttributeError` for a name that the file does not have, with the nearest one that it has.
    """

    def __init__(self, source: str, queries: Mapping[str, LiteralString]) -> None:
        self._source = source
        self._queries = dict(queries)

    def __getitem__(self, name: str) -> LiteralString:
        try:
            return self._queries[name]
        except KeyError:
            raise KeyError(self._unknown(name)) from None

    def __getattr__(self, name: str) -> LiteralString:
        # Only called for what is not found otherwise. Names with an underscore in front are Python's own protocols.
        if not name.startswith("_"):
            if name in self._queries:
                return self._queries[name]
            raise AttributeError(self._unknown(name), name=name, obj=self)
        raise AttributeError(name=name, obj=self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    def _unknown(self, name: str) -> str:
        nearest = difflib.get_close_matches(name, self._queries, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(sorted(self._queries)) or 'none'}."
        return f"{self._source} has no query {name!r}; {hint}"


def load(package: str, file: str) -> Queries:
    """Read the queries of `file` in `package`. Call it where the module is imported, so that a bad file fails there.

    Raises:
        ValueError: the file is not a sequence of named blocks; the message has file and line.
        FileNotFoundError: there is no such file.
    """
    text = (resources.files(package) / file).read_text(encoding="utf-8")
    return Queries(file, parse_queries(text, source=file))


def parse_queries(text: str, *, source: str) -> dict[str, LiteralString]:
    """Split the text of an `.sql` file into its named queries. Pure; `source` names the file in errors.

    Raises:
        ValueError: text before the first name, a name that is no identifier, a name used twice, or an empty block.
    """
    bodies: dict[str, list[str]] = {}
    lines_of_names: dict[str, int] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if header := _NAME.fullmatch(stripped):
            name = header["name"]
            _check_name(name, lines_of_names, f"{source}:{number}")
            lines_of_names[name] = number
            bodies[name] = []
        elif stripped.startswith("--"):
            continue
        elif name:
            bodies[name].append(line.rstrip())
        elif stripped:
            raise ValueError(f"{source}:{number}: SQL before the first `-- name: …` line.")
    # The text is part of the program, as a literal would be; psycopg asks for that promise.
    queries: dict[str, LiteralString] = {name: "\n".join(body).strip() for name, body in bodies.items()}
    for name, query in queries.items():
        if not query:
            raise ValueError(f"{source}:{lines_of_names[name]}: the query {name!r} is empty.")
    return queries


def _check_name(name: str, taken: Mapping[str, int], place: str) -> None:
    if not name.isidentifier() or name.startswith("_"):
        raise ValueError(f"{place}: {name!r} cannot be the name of a query; use letters, digits and underscores.")
    if hasattr(Mapping, name):
        raise ValueError(f"{place}: {name!r} is a method of every mapping; give the query another name.")
    if name in taken:
        raise ValueError(f"{place}: the name {name!r} is taken already, on line {taken[name]}.")
