"""Whose fault it was: exit status, signal and standard error of real runs of FFmpeg 9.0.2, each with its verdict."""

from __future__ import annotations

import signal

import pytest

from vodpress.adapters.ffmpeg.failures import classify
from vodpress.adapters.process import ToolExit
from vodpress.domain.failure import FailureKind

CONTENT, INFRASTRUCTURE = FailureKind.CONTENT, FailureKind.INFRASTRUCTURE


def ended(status: int | None, stderr: str, signal_number: int | None = None, *, kernel: bool = False) -> ToolExit:
    return ToolExit(
        tool="ffmpeg",
        status=status,
        signal_number=signal_number,
        stderr_tail=stderr,
        cpu_seconds=1.0,
        wall_seconds=1.0,
        peak_memory_bytes=500_000_000,
        kernel_killed_for_memory=kernel,
    )


@pytest.mark.parametrize(
    ("exit_", "code", "kind"),
    [
        pytest.param(
            ended(
                183, "[in#0 @ 0x1] moov atom not found\nError opening input: Invalid data found when processing input"
            ),
            "source_corrupt",
            CONTENT,
            id="no index",
        ),
        pytest.param(
            ended(
                183,
                "[vist#0:0/h264 @ 0x1] Error submitting packet to decoder: Invalid data found when processing input",
            ),
            "source_corrupt",
            CONTENT,
            id="damaged picture",
        ),
        pytest.param(
            ended(1, "Decoding requested, but no decoder found for: none"),
            "codec_unsupported",
            CONTENT,
            id="no decoder",
        ),
        pytest.param(
            ended(
                228,
                "[vf#0:0 @ 0x1] Error sending frames to consumers: No space left on device\n"
                "[vf#0:0 @ 0x1] Task finished with error code: -28 (No space left on device)",
            ),
            "disk_full",
            INFRASTRUCTURE,
            id="full disk",
        ),
        pytest.param(
            ended(244, "[in#0 @ 0x1] Error opening input: Cannot allocate memory"),
            "out_of_memory",
            INFRASTRUCTURE,
            id="no memory",
        ),
        pytest.param(
            ended(8, "[vost#0:0 @ 0x1] Error selecting an encoder\nError opening output files: Encoder not found"),
            "tool_crashed",
            INFRASTRUCTURE,
            id="encoder missing",
        ),
        pytest.param(
            ended(254, "Error opening input files: No such file or directory"),
            "tool_crashed",
            INFRASTRUCTURE,
            id="no file",
        ),
        pytest.param(ended(None, "", signal.SIGSEGV), "tool_crashed", INFRASTRUCTURE, id="crash"),
        pytest.param(ended(None, "", signal.SIGKILL), "tool_crashed", INFRASTRUCTURE, id="killed by somebody"),
        pytest.param(
            ended(None, "", signal.SIGKILL, kernel=True), "out_of_memory", INFRASTRUCTURE, id="killed by the kernel"
        ),
        pytest.param(ended(None, "", signal.SIGXFSZ), "disk_full", INFRASTRUCTURE, id="file size limit"),
        pytest.param(
            ended(None, "Invalid data found when processing input", signal.SIGTERM),
            "tool_crashed",
            INFRASTRUCTURE,
            id="a signal is no verdict on the file, whatever was said before",
        ),
        pytest.param(
            ended(
                228, "Invalid data found when processing input\nav_interleaved_write_frame(): No space left on device"
            ),
            "disk_full",
            INFRASTRUCTURE,
            id="a full disk explains the complaints about data",
        ),
    ],
)
def test_verdict(exit_: ToolExit, code: str, kind: FailureKind) -> None:
    failure = classify(exit_, subject="slice 3")
    assert (failure.code, failure.kind) == (code, kind)
    assert failure.subject == "slice 3"
    assert "ffmpeg ended with" in failure.detail
