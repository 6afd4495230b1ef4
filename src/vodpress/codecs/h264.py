"""H.264 by x264: the encoder's arguments for one rung."""

from __future__ import annotations

from vodpress.domain.plan import Plan, RungPlan

ENCODER = "libx264"
SAMPLE_ENTRIES = ("avc1",)


def arguments(rung: RungPlan, plan: Plan) -> list[str]:
    """Everything that decides the bytes of the stream.

    Keyframes come every `gop_frames` and nowhere else, and GOPs are closed, so that every rung can be cut and switched
    at the same frames. One encoder thread: the number of threads changes the bytes, and many slices at once use the
    machine better than many threads.
    """
    gop = str(plan.gop_frames)
    return [
        "-c:v", ENCODER,
        "-preset", plan.preset,
        "-profile:v", rung.profile,
        "-crf", f"{rung.crf:g}",
        "-maxrate", f"{rung.maxrate_kbps}k",
        "-bufsize", f"{2 * rung.maxrate_kbps}k",
        "-g", gop,
        "-keyint_min", gop,
        "-sc_threshold", "0",
        "-flags:v", "+cgop+bitexact",
        "-threads:v", "1",
    ]  # fmt: skip
