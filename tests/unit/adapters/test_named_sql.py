"""Files of named queries: what is read, and how a mistake in one is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vodpress.adapters.db.named_sql import Queries, load, parse_queries

TEXT = """
-- Queries about assets.

-- name: find_asset
-- The asset; 100% of it.
SELECT *
FROM assets
WHERE id = %(asset_id)s

  --name:count_assets
SELECT count(*) FROM assets  -- of every state
"""


@pytest.fixture
def queries() -> Queries:
    return Queries("assets.sql", parse_queries(TEXT, source="assets.sql"))


def test_blocks_are_found_by_name_without_their_comment_lines(queries: Queries) -> None:
    assert dict(queries) == {
        "find_asset": "SELECT *\nFROM assets\nWHERE id = %(asset_id)s",
        "count_assets": "SELECT count(*) FROM assets  -- of every state",
    }


def test_a_query_is_an_item_and_an_attribute(queries: Queries) -> None:
    assert queries["find_asset"] == queries.find_asset
    assert len(queries) == 2
    assert "find_asset" in queries


def test_a_missing_query_is_answered_with_the_nearest_name(queries: Queries) -> None:
    with pytest.raises(KeyError, match=r"assets\.sql has no query 'find_aset'; did you mean 'find_asset'\?"):
        queries["find_aset"]
    with pytest.raises(AttributeError, match="did you mean 'count_assets'"):
        _ = queries.count_asset
    with pytest.raises(AttributeError, match="it has count_assets, find_asset"):
        _ = queries.zzz
    assert queries.get("zzz") is None
    assert not hasattr(queries, "_zzz")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2", r"x\.sql:3: the name 'a' is taken already, on line 1"),
        ("SELECT 1", r"x\.sql:1: SQL before the first"),
        ("-- name: a\n-- nothing here\n-- name: b\nSELECT 1", r"x\.sql:1: the query 'a' is empty"),
        ("-- name: a-b\nSELECT 1", r"x\.sql:1: 'a-b' cannot be the name"),
        ("-- name:\nSELECT 1", r"x\.sql:1: '' cannot be the name"),
        ("-- name: _a\nSELECT 1", r"x\.sql:1: '_a' cannot be the name"),
        ("-- name: items\nSELECT 1", r"x\.sql:1: 'items' is a method"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_queries(text, source="x.sql")


def test_a_file_is_read_from_the_package_that_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package_with_sql"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "some.sql").write_text("-- name: umlaut\nSELECT 'ü'", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert load("package_with_sql", "some.sql").umlaut == "SELECT 'ü'"
        with pytest.raises(FileNotFoundError):
            load("package_with_sql", "other.sql")
    finally:
        sys.modules.pop("package_with_sql", None)
