"""How much memory the command itself takes; the media programs it starts have limits of their own."""

from __future__ import annotations

import sys

import pytest
from tests.e2e.conftest import Package

pytestmark = [
    pytest.mark.xdist_group("e2e"),
    pytest.mark.skipif(sys.platform != "linux", reason="the peak of one process is read from Linux's /proc"),
]

MOST_BYTES = 150_000_000


def test_the_command_stays_small(package: Package) -> None:
    assert package.peak_bytes > 20_000_000  # less than Python and what it loaded: the mark was not read
    assert package.peak_bytes < MOST_BYTES
