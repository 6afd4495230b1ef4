"""AAC-LC by FFmpeg's own encoder: the encoder's arguments for the audio rendition."""

from __future__ import annotations

from vodpress.domain.plan import AudioPlan

ENCODER = "aac"
SAMPLE_ENTRIES = ("mp4a",)
FRAME_SAMPLES = 1024
"""Samples in one AAC frame (ISO/IEC 14496-3)."""


def arguments(audio: AudioPlan) -> list[str]:
    """Everything that decides the bytes of the stream.

    The encoder emits one frame of priming before time 0. It is dropped, so that the first frame kept is the first of
    the sound: players of fragmented MP4 differ in whether they honour an edit list, and would be 21 ms late without.
    """
    return [
        "-c:a", ENCODER,
        "-b:a", f"{audio.bitrate_kbps}k",
        "-ac", str(audio.channels),
        "-ar", str(audio.sample_rate_hz),
        "-flags:a", "+bitexact",
        "-bsf:a", r"noise=drop=lt(pts\,0)",
    ]  # fmt: skip
