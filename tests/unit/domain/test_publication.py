from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vodpress.domain.failure import InvalidRequest
from vodpress.domain.plan import AudioPlan, Picture, Plan, RungPlan, cut
from vodpress.domain.publication import (
    Contents,
    PublishPolicy,
    early_rung,
    is_settled,
    must_have,
    next_contents,
    parse_policy,
    playable_rung,
)
from vodpress.domain.rendition import RenditionState

SIZES = {"1080p": (1920, 1080), "720p": (1280, 720), "480p": (854, 480), "360p": (640, 360)}
AUDIO = AudioPlan(
    name="audio", stream_index=1, codec="aac", bitrate_kbps=128, channels=2, sample_rate_hz=48_000, language="eng"
)
STATES = list(RenditionState)
COMPLETED, WAIVED, FAILED, ENCODING = (
    RenditionState.COMPLETED,
    RenditionState.WAIVED,
    RenditionState.FAILED,
    RenditionState.ENCODING,
)


def plan_of(*names: str, optional: tuple[str, ...] = (), sound: bool = True) -> Plan:
    return Plan(
        frame_rate=Fraction(25),
        frames=100,
        gop_frames=50,
        segment_frames=100,
        preset="medium",
        picture=Picture(
            stream_index=0,
            start_ticks=0,
            tick_seconds=Fraction(1, 25),
            longest_gap_seconds=Fraction(1, 25),
            longest_keyframe_gap_seconds=Fraction(2),
            seekable=True,
            deinterlace=False,
            tone_map=False,
        ),
        rungs=tuple(
            RungPlan(
                name=name,
                width=SIZES[name][0],
                height=SIZES[name][1],
                codec="h264",
                profile="high",
                crf=23,
                maxrate_kbps=1000,
                required=name not in optional,
            )
            for name in names
        ),
        audio=AUDIO if sound else None,
        slices=cut(100, slice_frames=100),
    )


LADDER = plan_of("1080p", "720p", "480p", optional=("480p",))


def states(**changed: RenditionState) -> Mapping[str, RenditionState]:
    named = {key.removeprefix("p"): state for key, state in changed.items()}
    return {name: named.get(name, COMPLETED) for name in ("1080p", "720p", "480p", "audio")}


def decide(text: str, now: Mapping[str, RenditionState], published: Contents | None = None) -> Contents | None:
    return next_contents(PublishPolicy(text), LADDER, now, images=False, published=published)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("1080p", "720p", "480p", "360p"), "480p"),
        (("1080p", "720p", "360p"), "360p"),
        (("1080p", "720p"), "720p"),
        (("1080p",), "1080p"),
    ],
)
def test_the_smallest_rung_that_is_worth_watching(names: tuple[str, ...], expected: str) -> None:
    assert playable_rung(plan_of(*names)) == expected
    assert early_rung(PublishPolicy("playable"), plan_of(*names)) == (expected if len(names) > 1 else None)
    assert early_rung(PublishPolicy("all"), plan_of(*names)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", {"1080p", "720p", "audio"}),
        ("playable", {"480p", "audio"}),
        ("720p", {"720p", "audio"}),
        ("1080p,720p", {"1080p", "720p", "audio"}),
        ("2160p", {"1080p", "audio"}),  # the source is too small for it: its largest stands in
    ],
)
def test_what_a_policy_never_does_without(text: str, expected: set[str]) -> None:
    assert must_have(PublishPolicy(text), LADDER) == expected


def test_silence_is_not_waited_for() -> None:
    assert must_have(PublishPolicy("playable"), plan_of("480p", sound=False)) == {"480p"}


def test_all_waits_for_every_rendition_also_those_that_may_be_waived() -> None:
    assert decide("all", states(p480p=ENCODING)) is None
    assert decide("all", states(p480p=FAILED)) is None, "a failure is no waiver"
    assert decide("all", states()) == Contents(("1080p", "720p", "480p", "audio"), (), images=False)
    assert decide("all", states(p480p=WAIVED)) == Contents(("1080p", "720p", "audio"), ("480p",), images=False)


def test_named_rungs_are_shown_when_they_are_there_and_others_come_later() -> None:
    first = decide("1080p,720p", states(p480p=FAILED))
    assert first == Contents(("1080p", "720p", "audio"), (), images=False)
    assert decide("1080p,720p", states(p480p=FAILED), first) is None, "nothing new"
    assert decide("1080p,720p", states(), first) == Contents(("1080p", "720p", "480p", "audio"), (), images=False)
    assert decide("1080p,720p", states(p720p=ENCODING)) is None


def test_a_waiver_is_told_by_a_version_of_its_own() -> None:
    first = decide("720p", states(p480p=FAILED))
    assert first is not None
    assert decide("720p", states(p480p=WAIVED), first) == Contents(first.renditions, ("480p",), images=False)


def test_nothing_is_shown_without_sound() -> None:
    assert decide("playable", states(audio=ENCODING)) is None


def test_late_images_alone_make_a_new_version_once() -> None:
    policy, everything = PublishPolicy("all"), states()
    first = next_contents(policy, LADDER, everything, images=False, published=None)
    second = next_contents(policy, LADDER, everything, images=True, published=first)
    assert second is not None
    assert second.images
    assert next_contents(policy, LADDER, everything, images=True, published=second) is None


@given(
    st.sampled_from(["all", "playable", "720p", "480p,1080p", "nothing"]),
    st.fixed_dictionaries({name: st.sampled_from(STATES) for name in states()}),
    st.booleans(),
)
def test_whatever_is_shown_is_verified_and_enough(text: str, now: dict[str, RenditionState], images: bool) -> None:
    policy = PublishPolicy(text)
    contents = next_contents(policy, LADDER, now, images=images, published=None)
    completed = {name for name, state in now.items() if state is COMPLETED}
    if contents is None:
        assert not must_have(policy, LADDER) <= completed or (text == "all" and not is_settled(now))
    else:
        assert set(contents.renditions) == completed
        assert must_have(policy, LADDER) <= completed
        assert text != "all" or is_settled(now)


@pytest.mark.parametrize("text", ["", "1080p,", "4k", "All", "1080p;720p", "../x"])
def test_a_policy_that_is_none_is_refused_with_the_names_there_are(text: str) -> None:
    with pytest.raises(InvalidRequest, match="1080p, 720p") as caught:
        parse_policy(text, known=["720p", "1080p"])
    assert caught.value.code == "invalid_publish_policy"


def test_names_are_kept_in_one_order() -> None:
    assert parse_policy("720p, 1080p,720p", known=["720p", "1080p"]) == PublishPolicy("1080p,720p")
    assert parse_policy("playable", known=[]) == PublishPolicy("playable")
