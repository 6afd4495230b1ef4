"""What happens to a job after a failure: try again later, wait without counting, or bury it."""

from __future__ import annotations

from dataclasses import dataclass

from vodpress.domain.failure import Failure, FailureKind


@dataclass(frozen=True, slots=True)
class Schedule:
    """Delays before the second, third, … attempt, in seconds; there is one attempt more than delays.

    `jitter` is the largest relative deviation, so that jobs that failed together do not return together.
    `content_attempts` is how often a job is tried in all when the content is at fault.
    """

    delays_seconds: tuple[float, ...]
    jitter: float = 0.1
    content_attempts: int = 1

    @property
    def attempts(self) -> int:
        """How often a job is tried at all."""
        return len(self.delays_seconds) + 1


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Another attempt after `delay_seconds`."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class WaitFor:
    """The same attempt again after `delay_seconds`; it did not count."""

    delay_seconds: float


@dataclass(frozen=True, slots=True)
class Bury:
    """No further attempt without a person's decision."""


Decision = TryAgain | WaitFor | Bury

_WAIT_SECONDS = 15.0


def decide(failure: Failure, *, attempt: int, schedule: Schedule, chance: float) -> Decision:
    """Decide by the failure's kind.

    Args:
        attempt: the attempt that failed; 1 is the first.
        chance: a number in [0, 1) that spreads the delay over ± jitter; the caller gives it, nothing here is random.
    """
    if failure.kind is FailureKind.NOT_YET:
        return WaitFor(_WAIT_SECONDS)
    if failure.kind is FailureKind.CONTENT:
        return TryAgain(0) if attempt < schedule.content_attempts else Bury()
    if attempt >= schedule.attempts:
        return Bury()
    return TryAgain(spread(schedule.delays_seconds[attempt - 1], jitter=schedule.jitter, chance=chance))


def spread(delay_seconds: float, *, jitter: float, chance: float) -> float:
    """`delay_seconds` moved by up to ± `jitter` of itself; `chance` in [0, 1) says where in that range."""
    return delay_seconds * (1 + jitter * (2 * chance - 1))
