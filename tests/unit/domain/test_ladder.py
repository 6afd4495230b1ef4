"""Ladders: what a file may say, which rungs fit a source, and at which frame rate."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from importlib import resources
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vodpress.domain.failure import ExitCode, InvalidRequest
from vodpress.domain.ladder import AudioRung, Ladder, Rung, fitting_rungs, output_frame_rate, parse_ladder

SHORT_SIDES = st.lists(st.integers(16, 4320), min_size=1, max_size=8, unique=True)
RATES = st.fractions(min_value=Fraction(1, 10), max_value=1000, max_denominator=1001)
COMMON = [Fraction(rate) for rate in (10, 12, 15, 20, 24, 25, 30, 48, 50, 60)]
COMMON += [Fraction(rate, 1001) for rate in (24_000, 30_000, 60_000)]


def ladder_of(short_sides: list[int]) -> Ladder:
    rungs = tuple(Rung(name=f"{side}p", short_side=side, maxrate_kbps=1000) for side in short_sides)
    return Ladder(name="test", rungs=rungs)


def document(**changes: Any) -> dict[str, Any]:
    rung = {"name": "720p", "short_side": 720, "maxrate_kbps": 3000}
    return {"name": "mine", "rungs": [rung], **changes}


def fault(text: dict[str, Any]) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parse_ladder(text, origin="mine.toml")
    assert (caught.value.code, caught.value.exit_code) == ("invalid_ladder", ExitCode.USAGE)
    assert caught.value.message.startswith("mine.toml: ")
    return caught.value.message


@given(SHORT_SIDES, st.integers(1, 8640))
def test_nothing_is_upscaled_and_something_is_left(short_sides: list[int], source: int) -> None:
    fitting = fitting_rungs(ladder_of(short_sides), short_side=source)
    assert fitting
    assert all(rung.short_side <= source for rung in fitting)


@given(SHORT_SIDES, st.integers(1, 8640))
def test_every_rung_that_fits_is_made_largest_first(short_sides: list[int], source: int) -> None:
    wanted = sorted((side for side in short_sides if side <= source), reverse=True)
    assert [rung.short_side for rung in fitting_rungs(ladder_of(short_sides), short_side=source)] == (
        wanted or [source]
    )


def test_a_source_below_the_smallest_rung_gets_one_of_its_own_size() -> None:
    ladder = Ladder(
        name="test",
        rungs=(
            Rung(name="720p", short_side=720, maxrate_kbps=3000),
            Rung(name="360p", short_side=360, maxrate_kbps=800, crf=30, profile="main", required=False),
        ),
    )
    (rung,) = fitting_rungs(ladder, short_side=200)
    assert (rung.name, rung.short_side, rung.required) == ("200p", 200, True)
    assert (rung.maxrate_kbps, rung.crf, rung.profile) == (800, 30, "main")


def test_the_default_ladder_is_the_promised_one() -> None:
    text = (resources.files("vodpress") / "ladders" / "default.toml").read_text(encoding="utf-8")
    ladder = parse_ladder(tomllib.loads(text), origin="default.toml")
    assert [rung.name for rung in ladder.rungs] == ["2160p", "1080p", "720p", "480p", "360p"]
    assert all(rung.name == f"{rung.short_side}p" and rung.codec == "h264" for rung in ladder.rungs)
    assert (ladder.segment_seconds, ladder.frame_rate_cap, ladder.audio.codec) == (6, 60, "aac")


@pytest.mark.parametrize("model", [Ladder, Rung, AudioRung])
def test_a_misspelt_key_is_answered_with_the_nearest_one(model: type[Ladder | Rung | AudioRung]) -> None:
    for name in model.model_fields:
        misspelt = name[:1] + name[2:] + "x" if len(name) > 5 else name + "s"
        if misspelt in model.model_fields:
            continue
        text = document(audio={})
        place = {Ladder: text, Rung: text["rungs"][0], AudioRung: text["audio"]}[model]
        place[misspelt] = 1
        assert f"did you mean '{name}'?" in fault(text)


def test_a_key_like_none_is_answered_with_all() -> None:
    message = fault(document(qqqqqq=1))
    assert "unknown key 'qqqqqq'; known keys: " in message
    assert "segment_seconds" in message


def test_every_fault_is_told_with_its_place() -> None:
    rungs = [
        {"name": "720p", "short_side": 720, "maxrate_kbps": 0},
        {"name": "Big!", "short_side": 8, "maxrate_kbps": 1},
    ]
    message = fault(document(rungs=rungs, gop_seconds=99))
    for place in ("gop_seconds: ", "rungs[0].maxrate_kbps: ", "rungs[1].name: ", "rungs[1].short_side: "):
        assert place in message


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"audio": {"name": "720p"}}, "two rungs have the same name"),
        ({"segment_seconds": 2, "gop_seconds": 4}, "segment_seconds is shorter than gop_seconds"),
        ({"slice_seconds": 4}, "slice_seconds is shorter than segment_seconds"),
        ({"rungs": []}, "rungs: "),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in fault(document(**changes))


@given(RATES, st.floats(1, 240))
def test_the_frame_rate_is_never_above_the_cap(declared: Fraction, cap: float) -> None:
    rate = output_frame_rate(declared=declared, median_gap_seconds=Fraction(0), variable=False, cap=cap)
    assert 0 < rate <= cap


@given(RATES, st.floats(1, 240), st.booleans())
def test_the_frame_rate_is_a_whole_part_of_the_sources(declared: Fraction, cap: float, variable: bool) -> None:
    full = output_frame_rate(declared=declared, median_gap_seconds=1 / declared, variable=variable, cap=1e9)
    rate = output_frame_rate(declared=declared, median_gap_seconds=1 / declared, variable=variable, cap=cap)
    if full <= cap:
        assert rate == full
    else:
        divisor = round(full / rate)
        assert abs(full / rate - divisor) < Fraction(1, 100)
        assert full / (divisor - 1) > cap  # as many frames as the cap allows


@pytest.mark.parametrize("rate", COMMON)
def test_common_rates_are_kept_and_near_ones_become_them(rate: Fraction) -> None:
    for declared in (rate, rate * Fraction(10003, 10000), rate * Fraction(9997, 10000)):
        assert output_frame_rate(declared=declared, median_gap_seconds=Fraction(1), variable=False, cap=60) == rate


@given(RATES)
def test_a_variable_source_takes_the_common_rate_of_its_typical_gap(measured: Fraction) -> None:
    rate = output_frame_rate(declared=Fraction(7), median_gap_seconds=1 / measured, variable=True, cap=240)
    assert rate in [*COMMON, 120]
    assert all(abs(rate - measured) <= abs(other - measured) for other in COMMON)


def test_without_any_rate_there_is_one() -> None:
    nothing = Fraction(0)
    assert output_frame_rate(declared=nothing, median_gap_seconds=nothing, variable=False, cap=60) == 25
    assert output_frame_rate(declared=nothing, median_gap_seconds=Fraction(1, 50), variable=False, cap=60) == 50


@given(RATES)
def test_unusual_steady_rates_are_kept(declared: Fraction) -> None:
    assume(all(abs(rate / declared - 1) > Fraction(1, 1000) for rate in [*COMMON, Fraction(120)]))
    rate = output_frame_rate(declared=declared, median_gap_seconds=Fraction(0), variable=False, cap=1001)
    assert rate == declared


@pytest.mark.parametrize("name", ["master", "720p-iframes"])
def test_a_rung_takes_no_name_of_a_playlist(name: str) -> None:
    with pytest.raises(InvalidRequest, match="may not be called"):
        parse_ladder({"name": "mine", "rungs": [{"name": name, "short_side": 720, "maxrate_kbps": 3000}]}, origin="x")
