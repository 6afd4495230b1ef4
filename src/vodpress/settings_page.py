"""The settings as a page: `python -m vodpress.settings_page` prints docs/reference/settings.md."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from vodpress.settings import PREFIX, Settings


def page() -> str:
    """The whole page, Markdown."""
    lines = [
        "# Settings",
        "",
        "Generated from `vodpress.settings` by `make docs`; do not edit.",
        "",
        "Each is an environment variable, or a key of the TOML file that `VODPRESS_CONFIG` names (without it,",
        "`vodpress.toml` in the home is read where there is one). The environment wins over the file. An empty",
        "variable counts as not set, a list is separated by commas, a relative path starts at the working directory.",
        "An unknown name is refused, with the nearest real one (exit status 2).",
        "",
        "| variable | key | values | default | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    schema = Settings.model_json_schema()["properties"]
    for name, facts in schema.items():
        cells = (f"`{PREFIX}{name.upper()}`", f"`{name}`", _values(facts), _default(facts), facts["description"])
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


_TYPES = {"string": "text", "integer": "whole number", "number": "number", "path": "path", "password": "secret text"}
_LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def _values(facts: Mapping[str, Any]) -> str:
    if "anyOf" in facts:
        return _values(next(kind for kind in facts["anyOf"] if kind["type"] != "null"))
    if "enum" in facts:
        return ", ".join(f"`{value}`" for value in facts["enum"])
    if facts["type"] == "array":
        return f"list of {_values(facts['items'])}"
    limits = ", ".join(f"{sign} {facts[limit]:g}" for limit, sign in _LIMITS.items() if limit in facts)
    return f"{_TYPES[facts.get('format', facts['type'])]} {limits}".rstrip()


def _default(facts: Mapping[str, Any]) -> str:
    if "default_is" in facts:
        return str(facts["default_is"])
    default = facts["default"]
    return f"`{default}`" if not isinstance(default, list) else f"`{', '.join(f'{value:g}' for value in default)}`"


if __name__ == "__main__":
    sys.stdout.write(page())
