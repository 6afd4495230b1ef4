"""Progress is weighed by work, and time left is told only when there is something to tell it by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vodpress.domain.progress import AssetProgress, RenditionProgress, remaining_seconds


def rendition(weight: float, fraction: float, speed: float = 0) -> RenditionProgress:
    return RenditionProgress(
        name="r", state="encoding", width=None, height=None, weight=weight, fraction=fraction, speed=speed
    )


RENDITIONS = st.lists(st.builds(rendition, st.integers(0, 10**12), st.floats(0, 1)), max_size=8)


@given(RENDITIONS)
def test_the_whole_lies_between_its_parts(renditions: list[RenditionProgress]) -> None:
    whole = AssetProgress(renditions=tuple(renditions), packaging=False).fraction
    parts = [part.fraction for part in renditions if part.weight > 0]
    if not parts:
        assert whole == 0
    else:
        assert min(parts) - 1e-9 <= whole <= max(parts) + 1e-9


def test_a_large_rendition_weighs_more() -> None:
    progress = AssetProgress(renditions=(rendition(900, 0), rendition(100, 1)), packaging=False)
    assert progress.fraction == pytest.approx(0.1)


def test_speed_is_that_of_the_fastest() -> None:
    assert AssetProgress(renditions=(rendition(1, 0, 2.5), rendition(1, 0, 0)), packaging=False).speed == 2.5
    assert AssetProgress(renditions=(), packaging=False).speed == 0


@given(st.floats(1, 1000), st.integers(3, 50), st.floats(0.05, 0.95))
def test_steady_work_is_told_exactly(total: float, samples: int, done: float) -> None:
    history = [(total * done * number / samples, done * number / samples) for number in range(samples + 1)]
    assert remaining_seconds(history) == pytest.approx(total * (1 - done))


def test_a_slow_start_is_forgotten() -> None:
    history = [(0.0, 0.0), (100.0, 0.01), (110.0, 0.11), (120.0, 0.21), (130.0, 0.31), (140.0, 0.41)]
    assert remaining_seconds(history) == pytest.approx(59)


@pytest.mark.parametrize(
    "history",
    [[], [(0, 0)], [(0, 0.2), (60, 0.2)], [(0, 0.2), (60, 0.204)], [(5, 0.1), (5, 0.4)], [(0, 0.5), (10, 0.4)]],
)
def test_nothing_is_told_of_nothing(history: list[tuple[float, float]]) -> None:
    assert remaining_seconds(history) is None


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1)), max_size=30))
def test_time_left_is_never_negative(history: list[tuple[float, float]]) -> None:
    left = remaining_seconds(sorted(history))
    assert left is None or left >= 0
