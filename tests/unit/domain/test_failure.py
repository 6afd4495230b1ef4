"""The catalogue of failures and the exit statuses, which are an API."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vodpress.domain.failure import (
    CODES,
    ExitCode,
    Failure,
    FailureKind,
    InvalidRequest,
    LeaseLost,
    VodpressError,
    worst,
)

EXITS = st.lists(st.sampled_from(ExitCode))


def test_exit_statuses_are_the_promised_ones() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "USAGE": 2,
        "INFRASTRUCTURE": 5,
        "CONTENT": 6,
        "NOT_YET": 7,
        "WAITS_FOR_DECISION": 8,
        "INTERRUPTED": 130,
    }


@pytest.mark.parametrize(
    ("kind", "status"), [(FailureKind.INFRASTRUCTURE, 5), (FailureKind.CONTENT, 6), (FailureKind.NOT_YET, 7)]
)
def test_a_failures_kind_decides_its_exit_status(kind: FailureKind, status: int) -> None:
    codes = [code for code, entry in CODES.items() if entry.kind is kind]
    assert codes
    assert {int(Failure(code).exit_code) for code in codes} == {status}
    assert {Failure(code).kind for code in codes} == {kind}


@given(EXITS)
def test_the_worst_is_one_of_them_in_whatever_order(codes: list[ExitCode]) -> None:
    result = worst(codes)
    assert result in (codes or [ExitCode.DONE])
    assert worst(reversed(codes)) is result
    assert worst([*codes, ExitCode.DONE]) is result
    assert (result is ExitCode.DONE) == all(code is ExitCode.DONE for code in codes)


@given(EXITS, EXITS)
def test_the_worst_of_parts_is_the_worst_of_all(some: list[ExitCode], others: list[ExitCode]) -> None:
    assert worst([worst(some), worst(others)]) is worst([*some, *others])


def test_severity_goes_up_to_interrupted() -> None:
    ordered = [
        ExitCode.DONE,
        ExitCode.NOT_YET,
        ExitCode.WAITS_FOR_DECISION,
        ExitCode.CONTENT,
        ExitCode.INFRASTRUCTURE,
        ExitCode.USAGE,
        ExitCode.INTERRUPTED,
    ]
    assert set(ordered) == set(ExitCode)
    for milder, harder in pairwise(ordered):
        assert worst([milder, harder]) is harder


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_entry_is_a_sentence_and_a_remedy(code: str) -> None:
    entry = CODES[code]
    assert entry.code == code
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code)
    for text in (entry.sentence, entry.remedy):
        assert re.fullmatch(r"[A-Zv].*\.", text)  # `vodpress` begins small


def test_a_failure_carries_what_its_owner_needs() -> None:
    failure = Failure("disk_full", "No space on /data.", detail="ENOSPC", subject="videos/a")
    assert (failure.code, failure.message, failure.detail, failure.subject) == (
        "disk_full",
        "No space on /data.",
        "ENOSPC",
        "videos/a",
    )
    assert str(failure) == "disk_full: No space on /data. [videos/a]"
    assert Failure("disk_full").message == CODES["disk_full"].sentence


def test_an_unknown_code_is_a_defect() -> None:
    with pytest.raises(KeyError):
        Failure("no_such_code")


def test_all_errors_have_one_root() -> None:
    for error in (Failure("disk_full"), InvalidRequest("unknown_ladder", "message"), LeaseLost("gone")):
        assert isinstance(error, VodpressError)
    assert InvalidRequest("unknown_ladder", "message").exit_code == 2
