"""Plans into FFmpeg's arguments. Pure: the same plan gives the same list, which is part of the plan hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor

from vodpress.adapters.ffmpeg.untrusted import ALLOCATION, DECODER, DEMUXER, address
from vodpress.codecs import AUDIO, VIDEO
from vodpress.domain.plan import AudioPlan, Plan, RungPlan, Slice

SOURCE, OUTPUT = "SOURCE", "OUTPUT"

_QUIET = ["-nostdin", "-v", "error", "-xerror", "-progress", "pipe:1", "-stats_period", "0.5"]

# Fragments that carry absolute times, so that slices of one rendition join by concatenation. What pictures are decoded
# ahead of being shown is made up for by an edit list; readers based on FFmpeg would show them late without one.
_FRAGMENTED = [
    "-use_editlist",
    "1",
    "-movflags",
    "+frag_keyframe+delay_moov+default_base_moof+frag_discont+skip_trailer",
]

_AUDIO_FRAGMENT_MICROSECONDS = 2_000_000
_SMALLEST_TIMESCALE = 10_000

# A seek goes by decoding times and lands up to a few frames late (FFmpeg allows for 3/23 s); twice that and more.
_SEEK_MARGIN_SECONDS = Fraction(1, 2)

_PADDED_FRAMES = 2

# BT.2100 → BT.709 over linear light with 203 cd/m² as reference white (ITU-R BT.2408).
TONE_MAP = (
    "zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,tonemap=hable:desat=0,"
    "zscale=t=bt709:m=bt709:r=tv,format=yuv420p"
)


def frame_ticks(frame_rate: Fraction) -> tuple[int, int]:
    """`(timescale, ticks a frame)` in which every frame of that rate lies on a whole tick."""
    factor = 1
    while frame_rate.numerator * factor < _SMALLEST_TIMESCALE:
        factor *= 2
    return frame_rate.numerator * factor, frame_rate.denominator * factor


def decimal(value: Fraction) -> str:
    """Microseconds, rounded down: FFmpeg's command line knows no finer time."""
    ticks = floor(value * 1_000_000)
    sign = "-" if ticks < 0 else ""
    return f"{sign}{abs(ticks) // 1_000_000}.{abs(ticks) % 1_000_000:06d}"


def plan_commands(plan: Plan) -> list[list[str]]:
    """Every command of a plan, with the words `SOURCE` and `OUTPUT/<rendition>` in place of files."""
    commands = [
        slice_command(plan, part, plan.rungs, SOURCE, {rung.name: f"{OUTPUT}/{rung.name}" for rung in plan.rungs})
        for part in (plan.slices if plan.rungs else ())
    ]
    if plan.audio is not None:
        commands.append(audio_command(plan, plan.audio, SOURCE, f"{OUTPUT}/{plan.audio.name}"))
    return commands


def slice_command(
    plan: Plan, part: Slice, rungs: Sequence[RungPlan], source: str, outputs: Mapping[str, str]
) -> list[str]:
    """Decode a slice of the source once and encode it for every rung given.

    Output frame n of the whole video is the source frame on screen at n / frame rate after the first frame, whatever
    slice it is in: times stay those of the source (`-copyts`), so the grid is the same wherever reading starts.
    """
    arguments = [*_QUIET, *ALLOCATION, "-copyts", "-threads", "1", *DEMUXER, *DECODER]
    start = seek_seconds(plan, part)
    if start is not None:
        arguments += ["-seek_timestamp", "1", "-noaccurate_seek", "-ss", decimal(start)]
    arguments += ["-i", address(source), "-filter_complex", _filter_graph(plan, part, rungs)]
    timescale, _ = frame_ticks(plan.frame_rate)
    for rung in rungs:
        arguments += [
            "-map", f"[{rung.name}]",
            "-fps_mode", "passthrough",
            "-enc_time_base:v", "filter",
            *VIDEO[rung.codec].arguments(rung, plan),
            "-fflags", "+bitexact",
            "-map_metadata", "-1",
            "-video_track_timescale", str(timescale),
            *_FRAGMENTED,
            "-f", "mp4",
            "-y", address(outputs[rung.name]),
        ]  # fmt: skip
    return arguments


def audio_command(plan: Plan, audio: AudioPlan, source: str, output: str) -> list[str]:
    """Encode the whole audio, from the first to the last instant of the picture.

    Gaps are filled and what lies outside is cut, so that sound and picture start and end together.
    """
    picture = plan.picture
    start = picture.start_ticks * picture.tick_seconds
    samples = round(plan.duration_seconds * audio.sample_rate_hz)
    graph = (
        f"[0:{audio.stream_index}]asetpts=PTS-({start})/TB,"
        f"aresample={audio.sample_rate_hz}:async=1:first_pts=0,apad=whole_len={samples},"
        f"atrim=end_sample={samples},asetpts=N/SR/TB[{audio.name}]"
    )
    return [
        *_QUIET, *ALLOCATION, "-copyts", "-threads", "1", *DEMUXER, "-i", address(source),
        "-filter_complex", graph,
        "-map", f"[{audio.name}]",
        *AUDIO[audio.codec].arguments(audio),
        "-fflags", "+bitexact",
        "-map_metadata", "-1",
        *_FRAGMENTED,
        "-frag_duration", str(_AUDIO_FRAGMENT_MICROSECONDS),
        "-f", "mp4",
        "-y", address(output),
    ]  # fmt: skip


def seek_seconds(plan: Plan, part: Slice) -> Fraction | None:
    """Where to start reading for a slice, in the source's own time; `None` for its beginning.

    Early enough that the frame on screen at the slice's first instant, and one before it, are decoded. A container
    without an index may be entered anywhere, so there two keyframes' distances are added for a clean start.
    """
    picture = plan.picture
    begin = picture.start_ticks * picture.tick_seconds
    back = picture.longest_gap_seconds + 2 / plan.frame_rate + _SEEK_MARGIN_SECONDS
    if not picture.seekable:
        back += 2 * picture.longest_keyframe_gap_seconds
    at = begin + part.first_frame / plan.frame_rate - back
    return at if at > begin else None


def _filter_graph(plan: Plan, part: Slice, rungs: Sequence[RungPlan]) -> str:
    picture = plan.picture
    steps = [f"setpts=PTS-({picture.start_ticks})"]
    if picture.deinterlace:
        steps.append("bwdif=mode=send_frame")
    steps.append(f"fps={plan.frame_rate}")
    if part.first_frame + part.frames == plan.frames:
        # Rounding of the last frame's duration may leave the source a frame short of the plan.
        steps.append(f"tpad=stop={_PADDED_FRAMES}:stop_mode=clone")
    steps.append(f"trim=start_pts={part.first_frame}:end_pts={part.first_frame + part.frames}")
    if picture.tone_map:
        steps.append(TONE_MAP)
    steps.append(f"split={len(rungs)}" + "".join(f"[{rung.name}-in]" for rung in rungs))
    scales = [
        f"[{rung.name}-in]scale={rung.width}:{rung.height},setsar=1,format=yuv420p[{rung.name}]" for rung in rungs
    ]
    return ";".join([f"[0:{picture.stream_index}]" + ",".join(steps), *scales])
