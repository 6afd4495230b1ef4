"""hls.js and Shaka Player play what `vodpress process` made: every rendition, seeks, switches, to the end."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.e2e.conftest import Package
from tests.e2e.player import Offer, Player

pytestmark = [pytest.mark.xdist_group("e2e"), pytest.mark.asyncio(loop_scope="module")]


@dataclass(frozen=True)
class Way:
    """A player, and the presentation it is given."""

    player: str
    presentation: str

    async def open(self, player: Player, package: Package) -> Offer:
        return await player.open(self.player, package.manifest["playback"][self.presentation])


@pytest.fixture(
    params=[Way("hls.js", "hls"), Way("shaka", "hls"), Way("shaka", "dash")],
    ids=["hls.js", "shaka-hls", "shaka-dash"],
)
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


async def test_offers_what_the_manifest_lists(way: Way, player: Player, package: Package) -> None:
    offer = await way.open(player, package)
    assert abs(offer.duration_seconds - package.duration_seconds) <= package.frame_seconds
    assert len(offer.variants) == len(package.sizes)
    audio = package.manifest["audio"][0]["bandwidth"]
    listed = {(entry["width"], entry["height"]): entry["bandwidth"] + audio for entry in package.manifest["renditions"]}
    for variant in offer.variants:
        assert variant["bandwidth"] == pytest.approx(listed[variant["width"], variant["height"]], rel=0.01)


async def test_plays_every_rendition(way: Way, player: Player, package: Package) -> None:
    offer = await way.open(player, package)
    await player.play_on(0.1)
    seen = set()
    for index, variant in enumerate(offer.variants):
        await player.force(index)
        before = await player.showing(variant["width"], variant["height"])
        after = await player.play_on(1)
        assert (after.width, after.height) == (variant["width"], variant["height"])
        assert after.frames > before.frames
        assert after.audio_bytes > before.audio_bytes
        assert after.faults == []
        seen.add((after.width, after.height))
    assert seen == package.sizes


async def test_seeks_and_plays_on_to_the_end(way: Way, player: Player, package: Package) -> None:
    await way.open(player, package)
    for target in (package.duration_seconds / 2, 7.3, package.duration_seconds - 5):
        await player.seek(target)
        state = await player.play_on(1, rate=2)
        assert target + 1 <= state.time <= package.duration_seconds
    state = await player.to_the_end()
    assert state.ended
    assert state.time == pytest.approx(package.duration_seconds, abs=package.frame_seconds)
    assert state.faults == []


async def test_switches_without_a_hole(way: Way, player: Player, package: Package) -> None:
    offer = await way.open(player, package)
    order = sorted(range(len(offer.variants)), key=lambda index: offer.variants[index]["bandwidth"])
    lowest, highest = order[0], order[-1]
    await player.force(lowest)
    await player.showing(offer.variants[lowest]["width"], offer.variants[lowest]["height"])
    before = await player.play_on(1, rate=4)
    for target in (highest, lowest):
        await player.switch_ahead(target)
        await player.showing(offer.variants[target]["width"], offer.variants[target]["height"])
        after = await player.play_on(1)
        assert after.strange_seeks == before.strange_seeks
        assert after.faults == []
        assert set(after.buffered) == {"video", "audio"}
        for kind, ranges in after.buffered.items():
            assert len(ranges) == 1, f"{kind} has holes: {ranges}"
            assert ranges[0][0] <= after.time - 1
            assert ranges[0][1] > after.time
