"""When a video may be shown: the publish policy, and what its next version holds. A part is never shown by accident."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from vodpress.domain.failure import InvalidRequest
from vodpress.domain.plan import Plan
from vodpress.domain.rendition import RenditionState

_PLAYABLE_SHORT_SIDE = 480
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")

SETTLED = (RenditionState.COMPLETED, RenditionState.WAIVED)
"""States of a rendition for which nothing has to be made any more."""


@dataclass(frozen=True, slots=True)
class PublishPolicy:
    """What must be there before a video is shown.

    `all` waits for every rendition, `playable` for the smallest watchable rung, and names wait for these rungs. The
    audio, where there is any, is always waited for. Rungs that come later come with later versions.

    Attributes:
        text: `all`, `playable`, or names of rungs with commas between them.
    """

    text: str = "all"

    @property
    def names(self) -> tuple[str, ...]:
        """The rungs that it names; none for `all` and `playable`."""
        return () if self.text in {"all", "playable"} else tuple(self.text.split(","))


ALL = PublishPolicy()


def parse_policy(text: str, *, known: Collection[str]) -> PublishPolicy:
    """Read `all`, `playable` or `1080p,720p`.

    Args:
        known: the names of the ladder's rungs.

    Raises:
        InvalidRequest: code `invalid_publish_policy`.
    """
    if text in {"all", "playable"}:
        return PublishPolicy(text)
    names = [name.strip() for name in text.split(",")]
    wrong = [name for name in names if not _NAME.fullmatch(name) or name not in known]
    if wrong:
        raise InvalidRequest(
            "invalid_publish_policy",
            f"'{text}' is no publish policy: it is 'all', 'playable', or names of rungs with commas between them; "
            f"{', '.join(repr(name) for name in wrong)} is none of {', '.join(sorted(known))}.",
        )
    return PublishPolicy(",".join(sorted(set(names))))


def playable_rung(plan: Plan) -> str:
    """The rung that makes a video watchable first: the largest up to 480 lines, or else the smallest."""
    by_size = sorted(plan.rungs, key=lambda rung: min(rung.width, rung.height))
    small = [rung for rung in by_size if min(rung.width, rung.height) <= _PLAYABLE_SHORT_SIDE]
    return (small[-1] if small else by_size[0]).name


def early_rung(policy: PublishPolicy, plan: Plan) -> str | None:
    """The rung that is encoded by itself before the others; `None` where the policy asks for none."""
    return playable_rung(plan) if policy.text == "playable" and len(plan.rungs) > 1 else None


def must_have(policy: PublishPolicy, plan: Plan) -> frozenset[str]:
    """The renditions without which the video is never published; a person cannot waive them."""
    audio = {plan.audio.name} if plan.audio else set()
    if policy.text == "all":
        rungs = {rung.name for rung in plan.rungs if rung.required}
    elif policy.text == "playable":
        rungs = {playable_rung(plan)}
    else:  # rungs that the source is too small for are not in the plan
        rungs = {rung.name for rung in plan.rungs} & set(policy.names)
    return frozenset(audio | (rungs or {plan.rungs[0].name}))


@dataclass(frozen=True, slots=True)
class Contents:
    """What a version consists of; fixed when its number is given out, so that every attempt makes the same files."""

    renditions: tuple[str, ...]
    waived: tuple[str, ...]
    images: bool


def next_contents(
    policy: PublishPolicy,
    plan: Plan,
    states: Mapping[str, RenditionState],
    *,
    images: bool,
    published: Contents | None,
) -> Contents | None:
    """What the next version of a plan should hold, or `None` while there is no reason or no right to make one.

    Args:
        states: of every rendition of the plan, in ladder order.
        images: whether poster and storyboard are there.
        published: the contents of the plan's newest version.
    """
    completed = tuple(name for name, state in states.items() if state is RenditionState.COMPLETED)
    waived = tuple(name for name, state in states.items() if state is RenditionState.WAIVED)
    if not must_have(policy, plan) <= set(completed):
        return None
    if policy.text == "all" and not is_settled(states):
        return None
    contents = Contents(completed, waived, images)
    if published is None:
        return contents
    grown = (published.renditions, published.waived) != (completed, waived)
    return contents if grown or (images and not published.images) else None


def is_settled(states: Mapping[str, RenditionState]) -> bool:
    """Whether every rendition is there or waived."""
    return all(state in SETTLED for state in states.values())
