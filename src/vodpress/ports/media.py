"""Media tools as the stages see them: prober, transcoder, packager. Every result is verified before it is returned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from vodpress.domain.failure import Failure
from vodpress.domain.media import Probe
from vodpress.domain.plan import AudioPlan, Plan, RungPlan, Slice


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running tool is. `speed` is media seconds per wall second."""

    done_seconds: float
    total_seconds: float
    speed: float


OnProgress = Callable[[Progress], Awaitable[None]]
"""Called as a tool moves on, at most a few times a second. If it raises, the tool is stopped and the error goes on."""


@dataclass(frozen=True, slots=True)
class VerifiedFile:
    """An output that was looked into after it was made. `frames` counts packets: pictures, or AAC frames."""

    path: Path
    bytes: int
    sha256: str
    frames: int
    duration_seconds: Fraction


@dataclass(frozen=True, slots=True)
class EncodeReport:
    """What an encode made. A rung is in `outputs` or in `failures`, never in both."""

    outputs: Mapping[str, VerifiedFile]
    failures: Mapping[str, Failure]
    cpu_seconds: float
    wall_seconds: float


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Poster and storyboard on local disk; `files` holds paths relative to `folder`, poster first."""

    folder: Path
    poster: str
    storyboard: str
    files: tuple[str, ...]


class Prober(Protocol):
    """Looks into a source."""

    async def probe(self, path: Path) -> Probe:
        """Read streams and packets. Raises `Failure` of kind content when it is no usable video."""
        ...

    async def decode_check(self, path: Path, probe: Probe, *, whole: bool = False) -> None:
        """Decode start, middle and end (or all) and raise a content `Failure` when that shows damage."""
        ...


class Transcoder(Protocol):
    """Makes renditions. Every result is verified before it is returned."""

    def versions(self) -> Mapping[str, str]:
        """Name → version of the programs whose version can change an output byte."""
        ...

    def commands(self, plan: Plan) -> Sequence[Sequence[str]]:
        """The exact argument lists for a plan, with `SOURCE` and `OUTPUT/<rendition>` in place of files. Pure."""
        ...

    async def encode_slice(
        self,
        source: Path,
        plan: Plan,
        part: Slice,
        rungs: Sequence[RungPlan],
        folder: Path,
        on_progress: OnProgress,
        *,
        yields: bool = False,
    ) -> EncodeReport:
        """Encode one slice for the given rungs from one decode into `folder/<rung>.mp4`.

        With `yields`, everything else on the machine goes first.
        A rung whose output is wrong is reported in `failures`; a run that failed as a whole raises `Failure`.
        """
        ...

    async def verify_slice(self, path: Path, plan: Plan, part: Slice, rung: RungPlan) -> VerifiedFile:
        """Look into an encoded slice that was found. Raises `Failure("output_unverified")`."""
        ...

    async def encode_audio(
        self,
        source: Path,
        plan: Plan,
        audio: AudioPlan,
        folder: Path,
        on_progress: OnProgress,
        *,
        yields: bool = False,
    ) -> EncodeReport:
        """Encode the whole audio into `folder/<audio name>.mp4`."""
        ...

    async def stitch(self, parts: Sequence[Path], plan: Plan, output: Path) -> VerifiedFile:
        """Join the slices of one rung, in order, without encoding."""
        ...

    async def check_decodes(self, path: Path, plan: Plan, *, whole: bool) -> None:
        """Decode the start and the end of a rendition, or all of it. Raises `Failure("output_unverified")`."""
        ...

    async def thumbnails(self, source: Path, plan: Plan, probe: Probe, folder: Path) -> ImageSet:
        """Make `poster.jpg`, `storyboard.vtt` and sprite images in `folder`."""
        ...


@dataclass(frozen=True, slots=True)
class TrackInput:
    """A whole rendition to package. `rung` for video, `audio` for sound; exactly one is set."""

    name: str
    path: Path
    rung: RungPlan | None
    audio: AudioPlan | None


@dataclass(frozen=True, slots=True)
class PackagedTrack:
    """What packaging made of one rendition. Bandwidths in bits a second; `files` relative to the package folder."""

    name: str
    codecs: str
    bandwidth: int
    average_bandwidth: int
    duration_seconds: Fraction
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackageResult:
    """A complete package on local disk, verified. `hls`, `dash` and `files` are paths relative to its folder."""

    hls: str
    dash: str
    tracks: tuple[PackagedTrack, ...]
    files: tuple[str, ...]


class Packager(Protocol):
    """Makes HLS and DASH over one set of CMAF segments."""

    def command(self, plan: Plan) -> Sequence[str]:
        """The exact argument list for a plan, with names in place of input files. Pure."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Name → version of the programs whose version can change an output byte."""
        ...

    async def package(self, tracks: Sequence[TrackInput], plan: Plan, folder: Path) -> PackageResult:
        """Package the tracks into `folder` and verify the result."""
        ...
