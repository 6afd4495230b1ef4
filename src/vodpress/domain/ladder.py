"""The ladder: which renditions are wanted. Read from a TOML file that users copy and change."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from vodpress.domain.failure import InvalidRequest

X264_PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")

RungName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rung(_Strict):
    """One line of the ladder.

    Attributes:
        name: its name in paths and manifests, e.g. `720p`.
        short_side: pixels of the shorter side of the picture (the height of a landscape video).
        crf: constant rate factor of the encoder; lower is better and larger.
        maxrate_kbps: ceiling of the bit rate over a buffer of twice that size, in kilobits a second.
        required: whether the video may be published without it.
    """

    name: RungName
    short_side: int = Field(ge=16, le=4320)
    codec: Literal["h264"] = "h264"
    profile: Literal["baseline", "main", "high"] = "high"
    crf: float = Field(default=23, ge=0, le=51)
    maxrate_kbps: int = Field(gt=0, le=200_000)
    required: bool = True


class AudioRung(_Strict):
    """The audio rendition."""

    name: RungName = "audio"
    codec: Literal["aac"] = "aac"
    bitrate_kbps: int = Field(default=128, ge=16, le=512)
    channels: int = Field(default=2, ge=1, le=2)
    sample_rate_hz: Literal[32_000, 44_100, 48_000] = 48_000


class Ladder(_Strict):
    """A whole ladder, with what all its rungs share.

    Attributes:
        segment_seconds: wanted length of a segment; the real one is a whole number of GOPs.
        gop_seconds: wanted distance of keyframes, the same on every rung.
        slice_seconds: wanted length of one encode job.
        frame_rate_cap: sources above it are thinned to the largest whole fraction of their rate below it.
        preset: encoder speed against compression, one of x264's names.
    """

    name: RungName
    segment_seconds: float = Field(default=6, ge=1, le=30)
    gop_seconds: float = Field(default=2, ge=0.5, le=10)
    slice_seconds: float = Field(default=12, ge=2, le=120)
    frame_rate_cap: float = Field(default=60, ge=1, le=240)
    preset: Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"] = (
        "medium"
    )
    rungs: tuple[Rung, ...] = Field(min_length=1, max_length=16)
    audio: AudioRung = AudioRung()

    @model_validator(mode="after")
    def _consistent(self) -> Ladder:
        names = [rung.name for rung in self.rungs] + [self.audio.name]
        if len(set(names)) != len(names):
            raise ValueError("two rungs have the same name")
        if any(name == "master" or name.endswith("-iframes") for name in names):
            raise ValueError("a rung may not be called 'master' or '…-iframes'; playlists of a package are")
        if self.segment_seconds < self.gop_seconds:
            raise ValueError("segment_seconds is shorter than gop_seconds")
        if self.slice_seconds < self.segment_seconds:
            raise ValueError("slice_seconds is shorter than segment_seconds")
        return self


_MODELS: dict[str, type[BaseModel]] = {"rungs": Rung, "audio": AudioRung}


def parse_ladder(document: Mapping[str, Any], *, origin: str) -> Ladder:
    """Read a ladder from a parsed TOML document.

    Args:
        document: the tables of the file.
        origin: the file's name, for messages.

    Raises:
        InvalidRequest: code `invalid_ladder`, with every fault; a misspelt key is answered with the nearest real one.
    """
    try:
        return Ladder.model_validate(dict(document))
    except ValidationError as error:
        faults = "; ".join(_fault(tuple(entry["loc"]), entry["type"], entry["msg"]) for entry in error.errors())
        raise InvalidRequest("invalid_ladder", f"{origin}: {faults}") from error


def _fault(location: tuple[int | str, ...], kind: str, message: str) -> str:
    path = re.sub(r"\.(\d+)", r"[\1]", ".".join(str(part) for part in location))
    if kind != "extra_forbidden":
        return f"{path}: {message[0].lower()}{message[1:]}" if path else message.removeprefix("Value error, ")
    model = _MODELS.get(str(location[0]), Ladder) if len(location) > 1 else Ladder
    near = difflib.get_close_matches(str(location[-1]), model.model_fields, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(sorted(model.model_fields))}"
    return f"unknown key '{path}'; {hint}"


def fitting_rungs(ladder: Ladder, *, short_side: int) -> tuple[Rung, ...]:
    """The rungs for a source whose shorter side has `short_side` pixels, largest first.

    Never one that is larger than the source. Where none fits, the smallest rung at the source's own size, so that
    there is always one.
    """
    ordered = sorted(ladder.rungs, key=lambda rung: rung.short_side, reverse=True)
    fitting = tuple(rung for rung in ordered if rung.short_side <= short_side)
    if fitting:
        return fitting
    return (ordered[-1].model_copy(update={"name": f"{short_side}p", "short_side": short_side, "required": True}),)


_COMMON_RATES = tuple(
    Fraction(rate)
    for rate in (
        10, 12, 15, 20, Fraction(24000, 1001), 24, 25, Fraction(30000, 1001), 30, 48, 50, Fraction(60000, 1001), 60,
        120,
    )
)  # fmt: skip


def output_frame_rate(*, declared: Fraction, median_gap_seconds: Fraction, variable: bool, cap: float) -> Fraction:
    """The constant frame rate of the renditions.

    A steady source keeps its rate; one within 0.1 % of a common rate takes that rate, so that 60.02 becomes 60.
    A variable source takes the common rate nearest to that of its typical frame distance. Above `cap` the rate is
    divided by the smallest whole number that brings it under.
    """
    measured = 1 / median_gap_seconds if median_gap_seconds > 0 else Fraction(0)
    rate = declared if declared > 0 and not variable else measured
    if rate <= 0:
        rate = Fraction(25)
    nearest = min(_COMMON_RATES, key=lambda common: abs(common / rate - 1))
    if variable or abs(nearest / rate - 1) <= Fraction(1, 1000):
        rate = nearest
    if rate > cap:
        divisor = next(number for number in range(2, 10_000) if rate / number <= cap)
        rate /= divisor
    return rate.limit_denominator(1001 * 16)
