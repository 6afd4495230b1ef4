"""Poster and storyboard: one FFmpeg run, sprite sheets, and the WebVTT that maps times to tiles."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path

from vodpress.adapters.ffmpeg.command import TONE_MAP, decimal
from vodpress.adapters.ffmpeg.untrusted import ALLOCATION, DECODER, DEMUXER, address
from vodpress.domain.failure import Failure
from vodpress.domain.plan import Plan, scaled_size
from vodpress.ports import ImageSet

POSTER = "poster.jpg"
STORYBOARD = "storyboard.vtt"
STORYBOARD_FOLDER = "storyboard"

_COLUMNS = 5
_TILES = _COLUMNS * _COLUMNS
_TILE_LONG_SIDE = 160
_POSTER_SHORT_SIDE = 720
_POSTER_AT = 10  # a tenth in: past fades and title cards, in most videos
_WANTED_TILES = 100
_SHORTEST_INTERVAL_SECONDS = Fraction(2)
# Only keyframes are decoded where they are no farther apart than this (x264 puts 250 frames between them by default);
# else every frame that others are made from, at many times the cost.
_LONGEST_KEYFRAME_INTERVAL_SECONDS = Fraction(12)


@dataclass(frozen=True, slots=True)
class Layout:
    """How many tiles of which size, and how far apart in time. Sizes in pixels."""

    interval_seconds: Fraction
    duration_seconds: Fraction
    tiles: int
    tile: tuple[int, int]
    poster: tuple[int, int]
    keyframes_only: bool

    @property
    def sheets(self) -> int:
        """How many sprite images."""
        return ceil(Fraction(self.tiles, _TILES))


def lay_out(plan: Plan, *, width: int, height: int) -> Layout:
    """The storyboard for a picture of `width` × `height` as displayed."""
    interval = max(_SHORTEST_INTERVAL_SECONDS, Fraction(ceil(plan.duration_seconds / _WANTED_TILES)))
    gap = plan.picture.longest_keyframe_gap_seconds
    keyframes_only = gap <= max(interval, _LONGEST_KEYFRAME_INTERVAL_SECONDS)
    if keyframes_only:
        interval = max(interval, Fraction(ceil(gap)))
    short = min(width, height)
    tile_short = max(2, round(Fraction(_TILE_LONG_SIDE * short, max(width, height))))
    return Layout(
        interval_seconds=interval,
        duration_seconds=plan.duration_seconds,
        tiles=max(1, ceil(plan.duration_seconds / interval)),
        tile=scaled_size(width=width, height=height, short_side=min(tile_short, short)),
        poster=scaled_size(width=width, height=height, short_side=min(_POSTER_SHORT_SIDE, short)),
        keyframes_only=keyframes_only,
    )


def command(plan: Plan, layout: Layout, source: str, folder: str) -> list[str]:
    """FFmpeg's arguments: the source twice, read through for the tiles and at one place for the poster."""
    picture = plan.picture
    opened = [*DEMUXER, *DECODER, "-i", address(source)]
    skipped = ["-skip_frame", "nokey" if layout.keyframes_only else "noref", "-skip_loop_filter", "all"]
    tone = f",{TONE_MAP}" if picture.tone_map else ""
    # Tile n shows the frame on screen at n × interval. The last frame is held: rounding may leave it a tile short.
    tiles = (
        f"[0:{picture.stream_index}]setpts=PTS-({picture.start_ticks}),"
        f"fps={1 / layout.interval_seconds}:start_time=0:eof_action=pass,"
        f"tpad=stop=-1:stop_mode=clone,trim=end_pts={layout.tiles}{tone},{_jpeg(layout.tile)},"
        f"tile={_COLUMNS}x{_COLUMNS}[tiles]"
    )
    poster = f"[1:{picture.stream_index}]null{tone},{_jpeg(layout.poster)}[poster]"
    output = ["-fps_mode", "passthrough", "-c:v", "mjpeg", "-q:v", "4", "-flags:v", "+bitexact", "-fflags", "+bitexact"]
    return [
        "-nostdin", "-v", "error", "-progress", "pipe:1", "-stats_period", "0.5", *ALLOCATION, "-copyts",
        "-threads", "1", *skipped, *opened,
        "-threads", "1", *_poster_seek(plan), *opened,
        "-filter_complex", f"{tiles};{poster}",
        "-map", "[tiles]", *output, "-start_number", "0",
        "-f", "image2", "-y", address(f"{folder}/{STORYBOARD_FOLDER}/%03d.jpg"),
        "-map", "[poster]", *output, "-frames:v", "1", "-update", "1",
        "-f", "image2", "-y", address(f"{folder}/{POSTER}"),
    ]  # fmt: skip


def _poster_seek(plan: Plan) -> list[str]:
    """To half a frame before the frame that is wanted, for what lies before the seek is dropped."""
    wanted = plan.frames // _POSTER_AT
    if wanted == 0:
        return []
    begin = plan.picture.start_ticks * plan.picture.tick_seconds
    return ["-seek_timestamp", "1", "-ss", decimal(begin + (wanted - Fraction(1, 2)) / plan.frame_rate)]


def collect(layout: Layout, folder: Path) -> ImageSet:
    """Check that every image is there and whole, and write the WebVTT file.

    Raises:
        Failure: `output_unverified`.
    """
    sheets = [f"{STORYBOARD_FOLDER}/{number:03d}.jpg" for number in range(layout.sheets)]
    for path in (POSTER, *sheets):
        _require_jpeg(folder / path)
    (folder / STORYBOARD).write_text(storyboard(layout))
    return ImageSet(folder=folder, poster=POSTER, storyboard=STORYBOARD, files=(POSTER, STORYBOARD, *sheets))


def storyboard(layout: Layout) -> str:
    """WebVTT that players read: each cue names a tile by a media fragment (W3C Media Fragments, `xywh`)."""
    width, height = layout.tile
    cues = []
    for number in range(layout.tiles):
        begin = number * layout.interval_seconds
        end = min(begin + layout.interval_seconds, layout.duration_seconds)
        sheet, place = divmod(number, _TILES)
        row, column = divmod(place, _COLUMNS)
        cues.append(
            f"{_clock(begin)} --> {_clock(end)}\n"
            f"{STORYBOARD_FOLDER}/{sheet:03d}.jpg#xywh={column * width},{row * height},{width},{height}\n"
        )
    return "\n".join(["WEBVTT\n", *cues])


def _jpeg(size: tuple[int, int]) -> str:
    return f"scale={size[0]}:{size[1]}:out_range=full,setsar=1,format=yuvj420p"


def _require_jpeg(path: Path) -> None:
    data = path.read_bytes() if path.is_file() else b""
    if not (data.startswith(b"\xff\xd8") and data.endswith(b"\xff\xd9")):
        found = f"{len(data)} bytes that are no whole JPEG" if data else "nothing"
        raise Failure("output_unverified", detail=f"{path.name}: found {found}", subject=path.name)


def _clock(seconds: Fraction) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"
