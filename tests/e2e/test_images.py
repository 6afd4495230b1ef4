"""Poster and storyboard as a browser sees them: it reads the WebVTT and decodes the pictures."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.conftest import Package
from tests.e2e.player import Player

pytestmark = [pytest.mark.xdist_group("e2e"), pytest.mark.asyncio(loop_scope="module")]

# The text of a cue is a URL relative to the WebVTT file, with the tile in its fragment: xywh=x,y,width,height.
READ_STORYBOARD = """
async (url) => {
  const track = document.createElement("track");
  Object.assign(track, { kind: "metadata", src: url });
  const loaded = new Promise((resolve, reject) => {
    track.onload = resolve;
    track.onerror = () => reject(new Error("the browser refuses the WebVTT"));
  });
  video.append(track);
  track.track.mode = "hidden";
  await loaded;
  return Array.from(track.track.cues, (cue) => {
    const target = new URL(cue.text, url);
    const [x, y, width, height] = target.hash.replace("#xywh=", "").split(",").map(Number);
    target.hash = "";
    return { start: cue.startTime, end: cue.endTime, image: target.href, x, y, width, height };
  });
}
"""

# Size of a picture, and how far its grey levels are apart from darkest to lightest.
DECODE = """
async (url) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, width, height).data;
  let [darkest, lightest] = [255, 0];
  for (let n = 0; n < pixels.length; n += 4) {
    darkest = Math.min(darkest, pixels[n]);
    lightest = Math.max(lightest, pixels[n]);
  }
  return { width, height, contrast: lightest - darkest };
}
"""


async def decode(player: Player, url: str) -> dict[str, int]:
    found: dict[str, int] = await player.page.evaluate(DECODE, url)
    assert found["contrast"] > 60, f"{url} shows nothing"
    return found


async def test_poster_is_the_picture_at_full_size(player: Player, package: Package) -> None:
    poster = await decode(player, f"{player.base_url}/{package.manifest['images']['poster']}")
    source = package.manifest["source"]
    assert (poster["width"], poster["height"]) == (source["width"], source["height"])


async def test_storyboard_covers_the_whole_video(player: Player, package: Package) -> None:
    cues: list[dict[str, Any]] = await player.page.evaluate(
        READ_STORYBOARD, f"{player.base_url}/{package.manifest['images']['storyboard']}"
    )
    assert cues[0]["start"] == 0
    assert [cue["end"] for cue in cues[:-1]] == [cue["start"] for cue in cues[1:]]
    assert cues[-1]["end"] == pytest.approx(package.duration_seconds, abs=0.001)
    assert len({(cue["image"], cue["x"], cue["y"]) for cue in cues}) == len(cues)

    for image in {cue["image"] for cue in cues}:
        sheet = await decode(player, image)
        own = [cue for cue in cues if cue["image"] == image]
        for cue in own:
            assert cue["x"] % cue["width"] == cue["y"] % cue["height"] == 0
            assert cue["x"] + cue["width"] <= sheet["width"]
            assert cue["y"] + cue["height"] <= sheet["height"]
            assert cue["width"] / cue["height"] == pytest.approx(16 / 9, rel=0.02)
        assert sheet["width"] % own[0]["width"] == sheet["height"] % own[0]["height"] == 0
