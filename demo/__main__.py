"""`make demo`: one real video through the whole pipeline, and what came out. Everything goes into `build/demo`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import samples

_ROOT = Path(__file__).parent.parent
_HOME = _ROOT / "build" / "demo" / "home"
_OUT = _ROOT / "build" / "demo" / "streams"


def main() -> int:
    """Process the sample clip and say what came out and how to play it."""
    clip = samples.clip()
    print(f"{clip.name}: {samples.LICENCE}\n", flush=True)
    vodpress = Path(sys.executable).with_name("vodpress")
    environment = {"VODPRESS_HOME": str(_HOME), **os.environ}
    command = [str(vodpress), "process", str(clip), "--out", str(_OUT), "--json"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout)
        return done.returncode
    result = json.loads(done.stdout)
    manifest = json.loads(Path(result["manifest"]).read_text())
    _tell(result, manifest)
    return 0


def _tell(result: dict, manifest: dict) -> None:  # type: ignore[type-arg]
    folder = Path(result["manifest"]).parent.relative_to(_ROOT)
    how = "made before, nothing was encoded" if result["reused"] else "made"
    print(f"asset {result['asset']} is {result['state']}: {how} in {result['wall_seconds']:.1f} s")
    print(f"plan {manifest['plan_hash'][:16]}, version {manifest['version']}, {manifest['duration_seconds']} s\n")
    for rendition in manifest["renditions"]:
        print(
            f"  {rendition['name']:6} {rendition['width']}×{rendition['height']} {rendition['codecs']:12} "
            f"{rendition['average_bandwidth'] // 1000:5} kbit/s  {rendition['frames']} frames"
        )
    for audio in manifest["audio"]:
        print(f"  {audio['name']:6} {audio['codecs']:22} {audio['average_bandwidth'] // 1000:5} kbit/s")
    print(f"\nHLS   {folder}/{manifest['playback']['hls']}\nDASH  {folder}/{manifest['playback']['dash']}")
    print("\nPlay it: serve that folder, and open the HLS address in Safari, VLC, or any hls.js page:")
    print(f"  {Path(sys.executable).relative_to(_ROOT)} -m http.server --bind 127.0.0.1 --directory {folder} 8000")
    print("  http://127.0.0.1:8000/hls/master.m3u8")
    print("\nRun `make demo` again: the second run encodes nothing.")


if __name__ == "__main__":
    sys.exit(main())
