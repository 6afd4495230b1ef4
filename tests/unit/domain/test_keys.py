"""Keys: functions of the input, apart where inputs differ."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st

from vodpress.domain import keys

HASHES = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True)
INPUTS = st.tuples(NAMES, HASHES, HASHES, NAMES, st.integers(0, 99_999))
SAFE = re.compile(r"[a-z0-9][a-z0-9_.-]*(/[a-z0-9][a-z0-9_.-]*)*/?")

Input = tuple[str, str, str, str, int]


def made(given_: Input) -> list[str]:
    asset, source, plan, rendition, index = given_
    prefix = keys.plan_prefix(asset_id=asset, source_sha256=source, plan_hash=plan)
    return [
        keys.slice_key(prefix, rendition=rendition, index=index),
        keys.rendition_key(prefix, rendition=rendition),
        keys.image_prefix(prefix),
        keys.version_prefix(prefix, version=index + 1),
        keys.source_key(tenant=asset, sha256=source),
        keys.incoming_key(upload_id=asset),
    ]


@given(INPUTS)
def test_keys_are_functions_of_the_input(given_: Input) -> None:
    assert made(given_) == made(given_)
    assert len(set(made(given_))) == len(made(given_))
    assert all(SAFE.fullmatch(key) for key in made(given_))


@given(INPUTS)
def test_everything_of_an_asset_is_below_its_prefix(given_: Input) -> None:
    asset, source, plan, *_ = given_
    below = keys.plan_prefix(asset_id=asset, source_sha256=source, plan_hash=plan)
    assert below == f"videos/{asset}/{source[:16]}/{plan[:16]}/"
    assert below.startswith(keys.asset_prefix(asset))
    assert all(key.startswith(below) for key in made(given_)[:4])


@given(INPUTS, INPUTS)
def test_other_inputs_make_other_slices(one: Input, other: Input) -> None:
    assume((one[0], one[1][:16], one[2][:16], *one[3:]) != (other[0], other[1][:16], other[2][:16], *other[3:]))
    assert made(one)[0] != made(other)[0]


@given(st.lists(st.integers(0, 99_999), max_size=20))
def test_slices_sort_in_their_order(indices: list[int]) -> None:
    ordered = [keys.slice_key("p/", rendition="r", index=index) for index in sorted(indices)]
    assert ordered == sorted(ordered)
