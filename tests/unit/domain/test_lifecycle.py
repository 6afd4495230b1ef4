"""Transition tables: complete, connected, and asked in one way."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from vodpress.domain.asset import ASSET, AssetState
from vodpress.domain.diagrams import diagram, page, table
from vodpress.domain.job import JOB, JobState
from vodpress.domain.lifecycle import IllegalTransition, Lifecycle
from vodpress.domain.rendition import PLAN, RENDITION, SLICE, PlanState, RenditionState, SliceState

CYCLES: list[tuple[Lifecycle[Any], type[StrEnum]]] = [
    (ASSET, AssetState),
    (PLAN, PlanState),
    (RENDITION, RenditionState),
    (SLICE, SliceState),
    (JOB, JobState),
]
every_cycle = pytest.mark.parametrize(("cycle", "states"), CYCLES, ids=[cycle.name for cycle, _ in CYCLES])


@every_cycle
def test_every_state_is_in_the_table(cycle: Lifecycle[Any], states: type[StrEnum]) -> None:
    assert set(cycle.moves) == set(states)
    assert all(set(moves) <= set(states) for moves in cycle.moves.values())
    assert cycle.initial in states


@every_cycle
def test_every_state_can_be_reached(cycle: Lifecycle[Any], states: type[StrEnum]) -> None:
    reached, new = set(), {cycle.initial}
    while new:
        reached |= new
        new = {target for state in new for target in cycle.moves[state]} - reached
    assert reached == set(states)


@every_cycle
def test_sources_are_what_the_table_allows(cycle: Lifecycle[Any], states: type[StrEnum]) -> None:
    for target in states:
        allowed = tuple(state for state in states if cycle.allows(state, target))
        if allowed:
            assert set(cycle.sources(target)) == set(allowed)
        else:
            with pytest.raises(IllegalTransition, match=f"{cycle.name}: no state may become {target}"):
                cycle.sources(target)


@every_cycle
def test_no_state_becomes_itself_and_every_move_has_a_reason(cycle: Lifecycle[Any], states: type[StrEnum]) -> None:
    for state in states:
        assert not cycle.allows(state, state)
        assert all(reason for reason in cycle.moves[state].values())


@every_cycle
def test_something_ends(cycle: Lifecycle[Any], states: type[StrEnum]) -> None:
    final = {state for state in states if cycle.is_final(state)}
    assert final
    assert final == {state for state in states if not cycle.moves[state]}


@every_cycle
def test_diagram_and_table_show_every_move_and_no_other(cycle: Lifecycle[Any], states: type[StrEnum]) -> None:
    drawn = {tuple(line.strip().split(" --> ")) for line in diagram(cycle).splitlines()[1:]}
    listed = [line.split("`")[1::2][:2] for line in table(cycle).splitlines()[2:]]
    for source in states:
        for target in states:
            assert ((source, target) in drawn) == cycle.allows(source, target)
            assert ([source, target] in listed) == cycle.allows(source, target)
        assert ((source, "[*]") in drawn) == cycle.is_final(source)
    assert ("[*]", cycle.initial) in drawn
    assert diagram(cycle) in page()
    assert table(cycle) in page()
