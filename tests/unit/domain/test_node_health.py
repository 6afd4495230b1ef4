from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vodpress.domain.node_health import (
    ASSETS,
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    NODE,
    THRESHOLD,
    NodeHealth,
    NodeState,
)

MANY = [f"asset-{number}" for number in range(THRESHOLD)]


def failing(*assets: str, health: NodeHealth | None = None, now: float = 0.0) -> NodeHealth:
    health = health or NodeHealth()
    for asset in assets:
        health = health.after_failure("encode", asset, "disk_full", now=now)
    return health


def test_failures_of_different_assets_in_a_row_take_it_out() -> None:
    assert failing(*MANY[:-1]).state is NodeState.IN_SERVICE
    out = failing(*MANY)
    assert out.state is NodeState.OUT_OF_SERVICE
    assert "disk_full" in out.reason
    assert not out.may_take(FIRST_WAIT_SECONDS - 1)
    assert out.may_take(FIRST_WAIT_SECONDS)


def test_one_poisonous_file_is_not_the_nodes_fault() -> None:
    assert failing(*["poison"] * 100).state is NodeState.IN_SERVICE
    assert failing(*["poison", "other"] * 50).state is NodeState.IN_SERVICE
    assert ASSETS == 3


def test_a_success_in_between_starts_the_count_again() -> None:
    assert failing(*MANY[1:], health=failing(*MANY[:-1]).after_success("encode")).state is NodeState.IN_SERVICE


def test_what_goes_well_of_another_kind_proves_nothing() -> None:
    health = NodeHealth()
    for asset in MANY:
        health = health.after_failure("encode", asset, "tool_crashed", now=0).after_success("ingest")
    assert health.state is NodeState.OUT_OF_SERVICE
    trial = health.taken().after_success("ingest").given_back()
    assert trial.state is NodeState.ON_TRIAL
    assert trial.may_take(0)
    assert trial.taken().after_success("encode").state is NodeState.IN_SERVICE


def test_failures_of_several_kinds_are_counted_apart() -> None:
    health = NodeHealth()
    for kind, asset in zip(["encode", "ingest"] * 4, [*MANY, *MANY], strict=False):
        health = health.after_failure(kind, asset, "tool_crashed", now=0)
    assert health.state is NodeState.IN_SERVICE


def test_on_trial_one_job_at_a_time_is_taken() -> None:
    trial = failing(*MANY).taken()
    assert trial.state is NodeState.ON_TRIAL
    assert not trial.may_take(10**9)
    assert trial.given_back().may_take(0), "the job had to wait, or was taken away: another one is tried"
    assert trial.after_success("encode").state is NodeState.IN_SERVICE
    again = trial.after_failure("encode", "asset-9", "tool_crashed", now=1000).given_back()
    assert again.state is NodeState.OUT_OF_SERVICE
    assert again.retry_at == 1000 + 2 * FIRST_WAIT_SECONDS


def test_what_was_running_must_end_before_a_trial() -> None:
    out = failing(*MANY, health=NodeHealth().taken())
    assert not out.may_take(10**9)
    assert out.given_back().may_take(10**9)


def test_waits_double_up_to_a_limit_and_start_anew_after_a_success() -> None:
    health, waits = failing(*MANY), []
    for _ in range(10):
        waits.append(health.wait_seconds)
        health = health.taken().after_failure("encode", "a", "tool_hung", now=health.retry_at).given_back()
    assert waits[:3] == [60, 120, 240]
    assert waits[-1] == LONGEST_WAIT_SECONDS
    assert failing(*MANY, health=health.after_success("encode")).wait_seconds == FIRST_WAIT_SECONDS


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("fail"), st.sampled_from(["a", "b", "c", "d"])),
            st.sampled_from([("succeed", ""), ("take", ""), ("end", "")]),
            st.tuples(st.just("wait"), st.sampled_from(["30", "300", "3000"])),
        ),
        max_size=60,
    )
)
def test_whatever_happens(steps: list[tuple[str, str]]) -> None:
    health, now, row = NodeHealth(), 0.0, list[str]()
    for step, what in steps:
        before = health
        match step:
            case "fail":
                health = health.after_failure("encode", what, "disk_full", now=now)
                row.append(what)
            case "succeed":
                health, row = health.after_success("encode"), []
            case "take" if health.may_take(now):
                health = health.taken()
            case "end":
                health = health.given_back()
            case "wait":
                now += float(what)
        if health.state is not before.state:
            assert NODE.allows(before.state, health.state)
        if health.state is NodeState.OUT_OF_SERVICE:
            assert len(set(row)) >= ASSETS
            assert health.retry_at <= now + LONGEST_WAIT_SECONDS, "it always comes back"
        if health.state is NodeState.ON_TRIAL and before.state is NodeState.ON_TRIAL:
            assert health.busy <= max(1, before.busy)
        assert (health.reason == "") == (health.state is NodeState.IN_SERVICE)
