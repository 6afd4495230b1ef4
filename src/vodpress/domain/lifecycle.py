"""What a life cycle is: an enum of states and one table of allowed transitions, the only place that changes a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from vodpress.domain.failure import VodpressError

State = TypeVar("State", bound=StrEnum)


class IllegalTransition(VodpressError):
    """A change of state that the table does not have; always a defect of the caller."""


@dataclass(frozen=True)
class Lifecycle(Generic[State]):
    """A transition table.

    Attributes:
        name: what it is the life of; also the table's name in the database.
        initial: the state a new row starts in.
        moves: for each state, the states it may change to, each with the reason in a few words.
    """

    name: str
    initial: State
    moves: Mapping[State, Mapping[State, str]]

    def allows(self, source: State, target: State) -> bool:
        """Whether `source` may become `target`."""
        return target in self.moves[source]

    def sources(self, target: State) -> tuple[State, ...]:
        """The states that may become `target`: the `state IN (…)` of its guarded UPDATE.

        Raises:
            IllegalTransition: nothing may become `target`.
        """
        found = tuple(state for state in self.moves if target in self.moves[state])
        if not found:
            raise IllegalTransition(f"{self.name}: no state may become {target}")
        return found

    def is_final(self, state: State) -> bool:
        """Whether nothing comes after `state`."""
        return not self.moves[state]
