"""Dead letters and what people decide about them; versions that hold a part, and the way back to earlier ones."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.conftest import SLICES, StandIn
from tests.integration.cli.console import AT_ONCE, SLICE_ENCODES, Ended, Vodpress, wait_until

CRASH = 'echo "cannot do it" >&2; exit 1'
WHY = "the disk was replaced"


@pytest.fixture
def without_90p(replace_ffmpeg: StandIn) -> Path:
    """FFmpeg that crashes whenever it should make 90p."""
    return replace_ffmpeg(f'case "$*" in *{SLICE_ENCODES!r}*) {CRASH};; esac', matching="90p.mp4")


@pytest.fixture
def failed(vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, without_90p: Path) -> Ended:
    """A run in which 90p ran out of attempts."""
    return process(vodpress, clip, ladder_file, out, ffmpeg=without_90p)


def process(
    vodpress: Vodpress, file: Path, ladder_file: Path, out: Path, *options: str | Path, **settings: object
) -> Ended:
    command = ("process", file, "--out", out, "--ladder", ladder_file, "--json", *options)
    return vodpress.run(*command, **{**AT_ONCE, **settings})


def work(vodpress: Vodpress, asset: str) -> dict[str, Any]:
    """Let a worker run until the asset has no job, end it, and return what the asset shows then."""
    with vodpress.start("worker", "--queue", "encode=1", "--queue", "ingest=1", "--queue", "light=1") as running:

        def is_idle() -> bool:
            assert running.process.poll() is None, running.end()
            jobs: dict[str, int] = vodpress.json("asset", "show", asset)["jobs"]
            return not any(jobs.values())

        wait_until(is_idle, "no job is left")
        running.process.send_signal(signal.SIGTERM)
        ended = running.end()
    assert ended.status == 0, ended
    shown: dict[str, Any] = vodpress.json("asset", "show", asset)
    return shown


def renditions(shown: dict[str, Any]) -> dict[str, str]:
    (plan,) = shown["plans"]
    return {rendition["name"]: rendition["state"] for rendition in plan["renditions"]}


def manifests(vodpress: Vodpress) -> dict[int, dict[str, Any]]:
    found = [
        json.loads((vodpress.home / "storage" / key).read_bytes())
        for key in vodpress.objects("videos/")
        if key.endswith("/manifest.json")
    ]
    return {document["version"]: document for document in found}


def names(document: dict[str, Any]) -> list[str]:
    return [rendition["name"] for rendition in document["renditions"]]


def encodes(vodpress: Vodpress) -> dict[tuple[str, int], Any]:
    """When each slice was recorded."""
    return {key: part["completed_at"] for key, part in vodpress.slices().items() if part["completed_at"]}


def test_retry_repeats_only_what_is_missing(vodpress: Vodpress, failed: Ended) -> None:
    assert failed.status == 5, failed
    asset = failed.document["asset"]
    shown = vodpress.json("asset", "show", asset)
    assert shown["blocked"]
    assert renditions(shown) == {"180p": "completed", "90p": "failed", "audio": "completed"}
    listed = vodpress.json("dead-letter", "list")
    (cause,) = listed["causes"]
    assert (cause["code"], cause["assets"]) == ("tool_crashed", 1)
    letter = vodpress.json("dead-letter", "show", str(listed["letters"][0]["id"]))
    assert "cannot do it" in letter["detail"]
    assert "Traceback" in letter["traceback"]
    before = encodes(vodpress)

    decided = vodpress.run("dead-letter", "retry", "--all", "--why", WHY, "--by", "kim", "--json")
    assert decided.status == 0, decided
    shown = work(vodpress, asset)
    assert (shown["state"], shown["version"]) == ("ready", 1)
    after = encodes(vodpress)
    assert {key: after[key] for key in before} == before, "recorded slices were encoded again"
    assert names(manifests(vodpress)[1]) == ["180p", "90p"]
    letters = vodpress.json("dead-letter", "list", "--decided")["letters"]
    assert {entry["state"] for entry in letters} == {"retry"}
    told = vodpress.json("dead-letter", "show", str(letters[0]["id"]))
    assert (told["decided_by"], told["decided_why"]) == ("kim", WHY)
    events = [event["data"] for event in vodpress.json("events", "list", "--asset", asset) if "who" in event["data"]]
    assert {(data["who"], data["why"], data["resolution"]) for data in events} == {("kim", WHY, "retry")}


def test_what_is_required_cannot_be_waived(vodpress: Vodpress, failed: Ended) -> None:
    letter = vodpress.json("dead-letter", "list")["letters"][0]["id"]
    refused = vodpress.run("dead-letter", "waive", str(letter), "--json")
    assert refused.status == 2
    assert refused.document["refused"][0]["code"] == "not_waivable"
    assert "90p" in refused.document["refused"][0]["message"]
    assert vodpress.json("asset", "show", failed.document["asset"])["blocked"], "nothing was decided"


def test_a_decision_is_taken_once(vodpress: Vodpress, failed: Ended) -> None:
    letters = [str(letter["id"]) for letter in vodpress.json("dead-letter", "list")["letters"]]
    assert vodpress.run("dead-letter", "retry", "--cause", "tool_crashed", "--json").status == 0
    again = vodpress.run("dead-letter", "fail", *letters, "--json")
    assert again.status == 2
    assert {entry["code"] for entry in again.document["refused"]} == {"unknown_dead_letter"}
    assert vodpress.json("asset", "show", failed.document["asset"])["state"] == "processing"


def test_a_video_is_shown_with_the_named_rungs_and_the_rest_comes_later(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, without_90p: Path
) -> None:
    ended = process(vodpress, clip, ladder_file, out, "--publish", "180p", ffmpeg=without_90p)
    assert ended.status == 8, ended
    asset = ended.document["asset"]
    assert ended.document["state"] == "ready"
    exported = json.loads(Path(ended.document["manifest"]).read_bytes())
    assert names(exported) == ["180p"]
    assert exported["missing"] == [{"name": "90p", "reason": "pending"}]
    first = {key: sha for key, sha in vodpress.objects("videos/").items() if "/v1/" in key}

    assert vodpress.run("dead-letter", "retry", "--all").status == 0
    shown = work(vodpress, asset)
    assert renditions(shown) == {"180p": "completed", "90p": "completed", "audio": "completed"}
    last = manifests(vodpress)[shown["version"]]
    assert names(last) == ["180p", "90p"]
    assert last["missing"] == []
    objects = vodpress.objects("videos/")
    assert {key: objects.get(key) for key in first} == first, "whoever plays version 1 goes on playing"


def test_a_waiver_is_a_version_of_its_own(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, without_90p: Path
) -> None:
    ended = process(vodpress, clip, ladder_file, out, "--publish", "180p", ffmpeg=without_90p)
    asset = ended.document["asset"]
    assert vodpress.run("dead-letter", "waive", "--all", "--why", "too small").status == 0
    shown = work(vodpress, asset)
    assert renditions(shown) == {"180p": "completed", "90p": "waived", "audio": "completed"}
    assert shown["plans"][0]["state"] == "published"
    assert manifests(vodpress)[shown["version"]]["missing"] == [{"name": "90p", "reason": "waived"}]
    again = process(vodpress, clip, ladder_file, out, "--publish", "180p")
    assert again.status == 0, again
    assert again.document["reused"]


def test_failing_an_asset_ends_it_until_it_is_submitted_again(
    vodpress: Vodpress, failed: Ended, clip: Path, ladder_file: Path, out: Path
) -> None:
    letter = vodpress.json("dead-letter", "list")["letters"][0]["id"]
    assert vodpress.run("dead-letter", "fail", str(letter), "--why", "not worth it").status == 0
    shown = vodpress.json("asset", "show", failed.document["asset"])
    assert (shown["state"], shown["blocked"], shown["dead_letters"]) == ("errored", False, [])
    assert shown["reason"]["code"] == "tool_crashed"
    again = process(vodpress, clip, ladder_file, out)
    assert again.status == 0, again
    assert again.document["asset"] == failed.document["asset"]


def test_an_asset_goes_on_with_another_source(
    vodpress: Vodpress, tmp_path: Path, clip: Path, ladder_file: Path, out: Path
) -> None:
    torn = tmp_path / "torn.mp4"
    torn.write_bytes(clip.read_bytes()[: clip.stat().st_size // 2])
    ended = process(vodpress, torn, ladder_file, out, "--passthrough", "lesson 1")
    assert ended.status == 6, ended
    asset = ended.document["asset"]
    (letter,) = vodpress.json("dead-letter", "list")["letters"]
    assert letter["kind"] == "content"
    replaced = vodpress.run("dead-letter", "replace-source", str(letter["id"]), clip, "--why", "it was torn", "--json")
    assert replaced.status == 0, replaced
    shown = work(vodpress, asset)
    assert (shown["state"], shown["passthrough"], shown["version"]) == ("ready", "lesson 1", 1)
    assert manifests(vodpress)[1]["source"]["sha256"] == shown["source_sha256"]


def test_a_new_encode_that_fails_leaves_the_old_version_live(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, tmp_path: Path, without_90p: Path
) -> None:
    first = process(vodpress, clip, ladder_file, out)
    assert first.status == 0, first
    asset = first.document["asset"]
    other = tmp_path / "other.toml"
    other.write_text(ladder_file.read_text().replace("crf = 35", "crf = 38"))
    before = vodpress.objects("videos/")
    live = vodpress.json("asset", "show", asset)["version"]
    second = process(vodpress, clip, other, out, ffmpeg=without_90p)
    assert second.status == 5, second
    shown = vodpress.json("asset", "show", asset)
    assert (shown["state"], shown["version"], shown["blocked"]) == ("ready", live, False)
    objects = vodpress.objects("videos/")
    assert {key: objects.get(key) for key in before} == before
    letter = vodpress.json("dead-letter", "list")["letters"][0]["id"]
    assert vodpress.run("dead-letter", "fail", str(letter)).status == 0
    shown = vodpress.json("asset", "show", asset)
    assert (shown["state"], shown["version"]) == ("ready", live)
    assert [plan["state"] for plan in shown["plans"]] == ["published", "failed"]


def test_going_back_to_an_earlier_version(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, tmp_path: Path
) -> None:
    asset = process(vodpress, clip, ladder_file, out).document["asset"]
    earlier = vodpress.json("asset", "show", asset)["version"]
    other = tmp_path / "other.toml"
    other.write_text(ladder_file.read_text().replace("crf = 35", "crf = 38"))
    assert process(vodpress, clip, other, out).status == 0
    newest = vodpress.json("asset", "show", asset)["version"]
    assert newest > earlier

    back = vodpress.run("asset", "rollback", asset, "--to", str(earlier), "--why", "it looks worse", "--json")
    assert (back.status, back.document["version"]) == (0, earlier)
    shown = vodpress.json("asset", "show", asset)
    assert (shown["version"], shown["held"]) == (earlier, True)
    (event,) = [
        event
        for event in vodpress.json("events", "list", "--asset", asset)
        if event["type"] == "video.asset.rolled_back"
    ]
    assert event["data"]["from_version"] == newest

    third = tmp_path / "third.toml"
    third.write_text(ladder_file.read_text().replace("crf = 35", "crf = 40"))
    assert process(vodpress, clip, third, out).status == 0
    shown = vodpress.json("asset", "show", asset)
    assert shown["version"] > newest, "a plan made after the decision is live"
    assert not shown["held"]
    missing = vodpress.run("asset", "rollback", asset, "--to", "99", "--json")
    assert (missing.status, missing.document["reason"]["code"]) == (2, "no_such_version")


def test_the_watchable_rung_is_shown_before_the_others(
    vodpress: Vodpress, clip: Path, ladder_file: Path, out: Path, replace_ffmpeg: StandIn, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    # The two rungs that are up to 480 lines: the larger is the watchable one.
    slow = replace_ffmpeg(f'while [ ! -e {gate} ]; do sleep 0.02; done; exec "$REAL" "$@"', matching="90p.mp4")
    command = ("process", clip, "--out", out, "--ladder", ladder_file, "--publish", "playable", "--json")
    with vodpress.start(*command, ffmpeg=slow, encode_jobs=2) as running:
        wait_until(lambda: 1 in manifests(vodpress), "version 1 is there while 90p is not")
        assert names(manifests(vodpress)[1]) == ["180p"]
        assert manifests(vodpress)[1]["missing"] == [{"name": "90p", "reason": "pending"}]
        gate.touch()
        ended = running.end()
    assert ended.status == 0, ended
    assert names(json.loads(Path(ended.document["manifest"]).read_bytes())) == ["180p", "90p"]
    jobs = vodpress.json("queue", "list", "--queue", "encode")
    assert sum(job["args"].get("early", False) for job in jobs) == SLICES


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("process", "x.mp4", "--out", "o", "--publish", "4k"), "invalid_publish_policy"),
        (("worker", "--queue", "encode"), "invalid_queue"),
        (("worker", "--queue", "encode=0"), "invalid_queue"),
        (("worker", "--queue", "encoding=1"), "invalid_queue"),
        (("worker", "--queue", "light=1", "--queue", "light=2"), "invalid_queue"),
        (("dead-letter", "show", "1"), "unknown_dead_letter"),
        (("dead-letter", "retry", "1"), "unknown_dead_letter"),
    ],
)
def test_wrong_usage_is_told(vodpress: Vodpress, arguments: tuple[str, ...], code: str) -> None:
    ended = vodpress.run(*arguments)
    assert ended.status == 2, ended
    assert code in ended.stderr


def test_a_decision_needs_a_choice_of_letters(vodpress: Vodpress) -> None:
    for arguments in ((), ("1", "--all"), ("--all", "--cause", "tool_crashed"), ("--cause", "no_such_code")):
        assert vodpress.run("dead-letter", "retry", *arguments).status == 2
