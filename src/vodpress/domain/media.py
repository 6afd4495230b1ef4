"""What a probe learned about a source. Times are exact fractions of a second, sizes are pixels as displayed."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class PacketScan:
    """Facts read from the packets of the video stream, without decoding.

    Attributes:
        packets: number of packets that can be read.
        first_pts_seconds: smallest presentation time.
        end_seconds: largest presentation time plus that packet's duration.
        shortest_gap_seconds, longest_gap_seconds: distance between neighbouring presentation times.
        median_gap_seconds: the middle one of those distances; robust against a few long pauses.
        longest_keyframe_gap_seconds: the longest stretch without a keyframe.
    """

    packets: int
    first_pts_seconds: Fraction
    end_seconds: Fraction
    shortest_gap_seconds: Fraction
    longest_gap_seconds: Fraction
    median_gap_seconds: Fraction
    longest_keyframe_gap_seconds: Fraction

    @property
    def duration_seconds(self) -> Fraction:
        """Length of the picture as its packets say."""
        return self.end_seconds - self.first_pts_seconds


@dataclass(frozen=True, slots=True)
class VideoStream:
    """One video stream of a source.

    Attributes:
        index: stream index within the file.
        width, height: size in pixels as displayed: after rotation and with square pixels.
        coded_width, coded_height: size in pixels as stored.
        sample_aspect_ratio: width of a pixel over its height, as stored.
        rotation_degrees: clockwise turn that shows the picture upright: 0, 90, 180 or 270.
        declared_frame_rate: frames per second the container states as its average; 0 where it states none.
        time_base_seconds: length of one tick of the stream's timestamps.
        start_ticks: first presentation time in ticks.
        declared_duration_seconds, declared_frames: what the container states; `None` where it states nothing.
        color_transfer, color_primaries, color_space, color_range: FFmpeg's names, empty where unknown.
        field_order: `progressive`, `tt`, `bb`, `tb`, `bt`, or empty where unknown.
    """

    index: int
    codec: str
    profile: str
    pixel_format: str
    width: int
    height: int
    coded_width: int
    coded_height: int
    sample_aspect_ratio: Fraction
    rotation_degrees: int
    declared_frame_rate: Fraction
    time_base_seconds: Fraction
    start_ticks: int
    declared_duration_seconds: Fraction | None
    declared_frames: int | None
    color_transfer: str
    color_primaries: str
    color_space: str
    color_range: str
    field_order: str
    scan: PacketScan

    @property
    def is_hdr(self) -> bool:
        """Whether the transfer function is PQ or HLG (ITU-R BT.2100)."""
        return self.color_transfer in {"smpte2084", "arib-std-b67"}

    @property
    def is_interlaced(self) -> bool:
        """Whether the container marks the picture as fields."""
        return self.field_order in {"tt", "bb", "tb", "bt"}

    @property
    def is_variable_frame_rate(self) -> bool:
        """Whether neighbouring frames lie at unequal distances.

        Containers round timestamps to their tick (1 ms in Matroska), so distances within two ticks of each other,
        or within 1 %, count as equal.
        """
        spread = self.scan.longest_gap_seconds - self.scan.shortest_gap_seconds
        return spread > max(2 * self.time_base_seconds, self.scan.median_gap_seconds / 100)


@dataclass(frozen=True, slots=True)
class AudioStream:
    """One audio stream of a source. `channel_layout` and `language` are empty where unknown."""

    index: int
    codec: str
    channels: int
    channel_layout: str
    sample_rate_hz: int
    language: str
    start_seconds: Fraction
    declared_duration_seconds: Fraction | None


@dataclass(frozen=True, slots=True)
class Probe:
    """Everything ingest knows of a source.

    Attributes:
        container: FFmpeg's demuxer names, comma-separated as ffprobe prints them (`mov,mp4,…`).
        duration_seconds: length as the container states it, or as the packets say where it states none.
        seekable: whether the container has an index, so that a seek lands on a keyframe.
        other_streams: kinds of streams that are neither used video nor audio (`subtitle`, `data`, `attachment`).
        warnings: problems that do not stop the work, as sentences.
    """

    container: str
    bytes: int
    duration_seconds: Fraction
    video: VideoStream
    audio: tuple[AudioStream, ...]
    seekable: bool
    other_streams: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())
