"""A real run of the command over a real clip, once for all, and what looks at its result: players, FFmpeg."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import samples
from playwright.async_api import Browser, async_playwright
from tests.conftest import temporary_home
from tests.e2e.origin import Origin, serving
from tests.e2e.player import Player

from vodpress.adapters.ffmpeg.binaries import find_ffmpeg, find_ffprobe

HERE = Path(__file__).parent
NODE_MODULES = HERE.parents[1] / "node_modules"
RUN_SECONDS = 240

LADDER = """
name = "quick"
preset = "superfast"
rungs = [
  { name = "720p", short_side = 720, crf = 30, maxrate_kbps = 3000 },
  { name = "480p", short_side = 480, crf = 30, maxrate_kbps = 1500 },
  { name = "240p", short_side = 240, crf = 30, maxrate_kbps = 500 },
]
"""


@dataclass(frozen=True)
class Package:
    """One published video in a folder. `peak_bytes` is the most memory the vodpress process itself ever had."""

    folder: Path
    manifest: dict[str, Any]
    peak_bytes: int

    @property
    def duration_seconds(self) -> float:
        """As the manifest states it."""
        return float(self.manifest["duration_seconds"])

    @property
    def frame_seconds(self) -> float:
        """How long one picture is shown."""
        return float(1 / Fraction(self.manifest["renditions"][0]["frame_rate"]))

    @property
    def sizes(self) -> set[tuple[int, int]]:
        """Width and height of every video rendition."""
        return {(rendition["width"], rendition["height"]) for rendition in self.manifest["renditions"]}


Process = Callable[..., list[Package]]


@pytest.fixture(scope="session")
def process(tmp_path_factory: pytest.TempPathFactory) -> Process:
    """`process(files, ladder)`: what `vodpress process` makes of files by a ladder in TOML, nothing else running."""

    def run(files: Sequence[Path], ladder: str) -> list[Package]:
        work = tmp_path_factory.mktemp("process")
        (work / "ladder.toml").write_text(ladder)
        options: list[str | Path] = ["--out", work / "out", "--ladder", work / "ladder.toml", "--json"]
        with temporary_home() as home:
            ended = subprocess.run(
                [sys.executable, "-P", HERE / "measured.py", work / "peak", "process", *files, *options],
                env={**os.environ, "VODPRESS_HOME": str(home)},
                cwd=work,
                capture_output=True,
                text=True,
                timeout=RUN_SECONDS,
                check=False,
            )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        documents = [json.loads(line) for line in ended.stdout.splitlines()]
        peak = int((work / "peak").read_text())
        manifests = [Path(document["manifest"]) for document in documents]
        return [Package(path.parent, json.loads(path.read_text()), peak) for path in manifests]

    return run


@pytest.fixture(scope="session")
def clip(require: Callable[..., Any]) -> Path:
    """The sample clip; a test that needs it is skipped where it cannot be had."""
    try:
        found, why = samples.clip(), ""
    except samples.SampleMissing as error:
        found, why = None, str(error)
    path: Path = require("samples", why, found=found)
    return path


@pytest.fixture(scope="session")
def package(clip: Path, process: Process) -> Package:
    """The sample clip in three renditions."""
    return process([clip], LADDER)[0]


@pytest.fixture(scope="session")
def players(require: Callable[..., Any]) -> Path:
    """The folder of the npm packages."""
    path: Path = require("players", "Run `npm ci`.", found=(NODE_MODULES / "hls.js").is_dir() and NODE_MODULES)
    return path


@pytest.fixture
def origin(package: Package, players: Path) -> Iterator[Origin]:
    """The package, the players and the test page on a web server. Whatever is asked of it must be there."""
    with serving({"package": package.folder, "players": players, "page": HERE / "page"}) as server:
        yield server
        assert server.refused == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(require: Callable[..., Any]) -> AsyncIterator[Browser]:
    """Debian's Chromium, without a window."""
    how = "Install Chromium, on Debian with `apt-get install chromium`."
    program = require("browser", how, found=shutil.which("chromium"))
    arguments = ["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=program, args=arguments)
        yield chromium
        await chromium.close()


@pytest_asyncio.fixture(loop_scope="module")
async def player(browser: Browser, origin: Origin) -> AsyncIterator[Player]:
    """A page with both players, nothing loaded. Nothing may be thrown in it."""
    page = await browser.new_page()
    thrown: list[str] = []
    page.on("pageerror", lambda error: thrown.append(str(error)))
    try:
        await page.goto(f"{origin.url}/page/player.html")
        yield Player(page, f"{origin.url}/package")
        assert thrown == []
    finally:
        await page.close()


@pytest.fixture(scope="session")
def ffmpeg() -> str:
    """The FFmpeg that came with vodpress."""
    return str(asyncio.run(find_ffmpeg(None)).path)


@pytest.fixture(scope="session")
def ffprobe() -> str:
    """The ffprobe that came with vodpress."""
    return str(asyncio.run(find_ffprobe(None)).path)
