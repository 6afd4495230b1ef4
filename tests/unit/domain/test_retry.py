"""What happens after a failure depends on its kind and on the attempts already made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vodpress.domain.failure import CODES, Failure, FailureKind
from vodpress.domain.retry import Bury, Schedule, TryAgain, WaitFor, decide, spread

CHANCES = st.floats(0, 1, exclude_max=True)
SCHEDULES = st.builds(
    Schedule,
    delays_seconds=st.lists(st.floats(0, 1e6), max_size=8).map(tuple),
    jitter=st.floats(0, 0.99),
    content_attempts=st.integers(1, 5),
)


def failures(kind: FailureKind) -> st.SearchStrategy[Failure]:
    return st.sampled_from([code for code, entry in CODES.items() if entry.kind is kind]).map(Failure)


@given(failures(FailureKind.NOT_YET), st.integers(1, 100), SCHEDULES, CHANCES)
def test_not_yet_waits_however_often(failure: Failure, attempt: int, schedule: Schedule, chance: float) -> None:
    decision = decide(failure, attempt=attempt, schedule=schedule, chance=chance)
    assert isinstance(decision, WaitFor)
    assert decision.delay_seconds > 0


@given(failures(FailureKind.CONTENT), st.integers(1, 100), SCHEDULES, CHANCES)
def test_content_is_tried_as_often_as_said_and_at_once(
    failure: Failure, attempt: int, schedule: Schedule, chance: float
) -> None:
    expected = TryAgain(0) if attempt < schedule.content_attempts else Bury()
    assert decide(failure, attempt=attempt, schedule=schedule, chance=chance) == expected


@given(failures(FailureKind.INFRASTRUCTURE), SCHEDULES, CHANCES)
def test_infrastructure_goes_through_the_schedule_and_ends(failure: Failure, schedule: Schedule, chance: float) -> None:
    for attempt, delay in enumerate(schedule.delays_seconds, start=1):
        decision = decide(failure, attempt=attempt, schedule=schedule, chance=chance)
        assert isinstance(decision, TryAgain)
        assert abs(decision.delay_seconds - delay) <= delay * (schedule.jitter + 1e-9)
    for attempt in (schedule.attempts, schedule.attempts + 1, schedule.attempts + 100):
        assert decide(failure, attempt=attempt, schedule=schedule, chance=chance) == Bury()


@given(st.floats(0, 1e6), st.floats(0, 0.99), CHANCES)
def test_spread_stays_within_the_jitter(delay: float, jitter: float, chance: float) -> None:
    assert delay * (1 - jitter) <= spread(delay, jitter=jitter, chance=chance) + delay * 1e-9
    assert spread(delay, jitter=jitter, chance=chance) <= delay * (1 + jitter + 1e-9)


def test_spread_uses_the_whole_range() -> None:
    assert spread(60, jitter=0.1, chance=0) == pytest.approx(54)
    assert spread(60, jitter=0.1, chance=0.5) == pytest.approx(60)
    assert spread(60, jitter=0.1, chance=1 - 1e-12) == pytest.approx(66)


def test_the_media_schedule_has_three_retries() -> None:
    assert Schedule((60, 300, 1500)).attempts == 4
