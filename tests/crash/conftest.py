"""The same videos and the same command as in the tests of the command line."""

from __future__ import annotations

from tests.integration.cli.conftest import clip, ladder_file, other_clip, out, replace_ffmpeg, vodpress
from tests.integration.conftest import ffmpeg, make

__all__ = ["clip", "ffmpeg", "ladder_file", "make", "other_clip", "out", "replace_ffmpeg", "vodpress"]
