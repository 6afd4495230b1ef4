"""`make bench`: what `vodpress process` costs over the best hand-written FFmpeg command for the same result.

Both make the same rungs with the same encoder settings, GOPs and segments, and everything vodpress does is counted:
probe, hash, verification, packaging, images, database. `python -m benchmarks FILE` takes another video than the sample.
"""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

import samples

from benchmarks import pickup, process, throughput


def main() -> int:
    """Run every benchmark and print its ratios."""
    clip = Path(sys.argv[1]) if len(sys.argv) > 1 else samples.clip()
    for line in chain(pickup.measure(), throughput.measure(), process.compare(clip)):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
