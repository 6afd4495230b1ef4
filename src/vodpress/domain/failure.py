"""The three kinds of 'no', their stable codes and what a command's exit status says of them.

    VodpressError
    ├── InvalidRequest         the caller asked for something impossible; nothing was started      exit 2
    ├── Failure                work was tried (or could not start) and did not succeed
    │   ├── kind INFRASTRUCTURE    no verdict on the file; retried, then a dead letter             exit 5
    │   ├── kind CONTENT           the file itself is at fault; never retried as it is             exit 6
    │   └── kind NOT_YET           a resource is missing right now; snoozed, not an attempt        exit 7
    └── LeaseLost              this worker's claim is no longer the live one; its result is void

The table is an API: codes and exit statuses never change meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class FailureKind(StrEnum):
    """Who owns a failure, and so what happens next."""

    INFRASTRUCTURE = "infrastructure"
    CONTENT = "content"
    NOT_YET = "not_yet"


class ExitCode(IntEnum):
    """Exit status of every vodpress command."""

    DONE = 0
    USAGE = 2
    INFRASTRUCTURE = 5
    CONTENT = 6
    NOT_YET = 7
    WAITS_FOR_DECISION = 8
    INTERRUPTED = 130


_SEVERITY = (
    ExitCode.DONE,
    ExitCode.NOT_YET,
    ExitCode.WAITS_FOR_DECISION,
    ExitCode.CONTENT,
    ExitCode.INFRASTRUCTURE,
    ExitCode.USAGE,
    ExitCode.INTERRUPTED,
)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The exit status for several results: the one that most needs the caller's attention."""
    return max(codes, key=_SEVERITY.index, default=ExitCode.DONE)


_EXIT_OF_KIND = {
    FailureKind.INFRASTRUCTURE: ExitCode.INFRASTRUCTURE,
    FailureKind.CONTENT: ExitCode.CONTENT,
    FailureKind.NOT_YET: ExitCode.NOT_YET,
}


@dataclass(frozen=True, slots=True)
class FailureCode:
    """One entry of the catalogue: a stable code, its owner, and what a person can do about it."""

    code: str
    kind: FailureKind
    sentence: str
    remedy: str

    @property
    def exit_code(self) -> ExitCode:
        """Exit status of a command that ended with this failure."""
        return _EXIT_OF_KIND[self.kind]


def _content(code: str, sentence: str, remedy: str) -> FailureCode:
    return FailureCode(code, FailureKind.CONTENT, sentence, remedy)


def _infrastructure(code: str, sentence: str, remedy: str) -> FailureCode:
    return FailureCode(code, FailureKind.INFRASTRUCTURE, sentence, remedy)


def _not_yet(code: str, sentence: str, remedy: str) -> FailureCode:
    return FailureCode(code, FailureKind.NOT_YET, sentence, remedy)


_CATALOGUE = (
    _content("source_empty", "The file has no bytes.", "Upload it again; the transfer brought nothing."),
    _content(
        "source_unreadable",
        "The file is not a video container that can be read.",
        "Check that it plays elsewhere and export it again as MP4, MOV, MKV or WebM.",
    ),
    _content("no_video_stream", "The file holds no video stream.", "Upload a file with a picture."),
    _content(
        "source_truncated",
        "The file ends before the length it declares.",
        "Upload it again; the transfer or the recording was cut short.",
    ),
    _content(
        "source_corrupt",
        "The video data is damaged and cannot be decoded.",
        "Export the video again from its original.",
    ),
    _content(
        "codec_unsupported",
        "The video is in a codec that cannot be decoded.",
        "Convert it to H.264, HEVC, VP9, AV1 or ProRes.",
    ),
    _content(
        "source_over_limits",
        "The video is larger than this installation accepts.",
        "Lower its resolution, frame rate or length, or raise the limit in the settings.",
    ),
    _infrastructure("tool_missing", "A program that vodpress runs is not there.", "Run `vodpress doctor`."),
    _infrastructure("tool_crashed", "A program that vodpress runs ended abnormally.", "See the detail; it is retried."),
    _infrastructure(
        "tool_hung", "A program that vodpress runs stopped making progress and was ended.", "It is retried."
    ),
    _infrastructure(
        "job_overdue",
        "A job did not end within the time that one attempt may take.",
        "It is retried; if it repeats, see what it waits for, or raise VODPRESS_JOB_DEADLINE_SECONDS.",
    ),
    _infrastructure(
        "out_of_memory",
        "The kernel ended a program because memory ran out.",
        "Lower the number of jobs at once or add memory.",
    ),
    _infrastructure("disk_full", "A disk is full.", "Free space under VODPRESS_HOME or the output folder."),
    _infrastructure(
        "output_unverified",
        "A finished output did not have the frames or the length it must have.",
        "It is retried; if it repeats, see the detail.",
    ),
    _infrastructure("storage_unavailable", "The object storage did not answer.", "Check the storage; it is retried."),
    _infrastructure("database_unavailable", "The database did not answer.", "Check PostgreSQL; it is retried."),
    _infrastructure("worker_died", "The worker that had the job died.", "It is retried on another worker."),
    _infrastructure(
        "asset_deleted",
        "The asset was deleted while it was processed.",
        "Process the file again if it is still wanted.",
    ),
    _infrastructure(
        "node_out_of_service",
        "A node has taken itself out of service.",
        "Mend what its last jobs failed of; it tries a job again by itself.",
    ),
    _infrastructure("internal_error", "vodpress itself failed; this is a defect.", "Report it with the detail."),
    _not_yet(
        "disk_reserve_short",
        "There is not enough free disk for this job.",
        "Free space under VODPRESS_HOME, or lower the reserve.",
    ),
    _not_yet("database_busy", "Another transaction had to go first.", "Nothing; it goes on by itself in a moment."),
    _not_yet("dependency_pending", "Something this work needs is not finished yet.", "Nothing; it goes on by itself."),
)

CODES: dict[str, FailureCode] = {entry.code: entry for entry in _CATALOGUE}


REQUEST_CODES: dict[str, str] = {
    "file_not_found": "There is no such file.",
    "file_is_directory": "A folder was named where a file is needed.",
    "file_not_regular": "What was named is a device, a pipe or a socket.",
    "file_unreadable": "The file may not be read.",
    "output_unwritable": "The output folder cannot be made or written.",
    "unknown_ladder": "There is no ladder of that name, or no such ladder file.",
    "invalid_ladder": "The ladder has a fault; a misspelt key is answered with the nearest real one.",
    "invalid_settings": "A setting has a fault; a misspelt name is answered with the nearest real one.",
    "invalid_storage_url": "The storage's address is none that can be used.",
    "invalid_key": "An object key holds something that not every storage can keep.",
    "object_too_large": "An object that must not replace another is larger than one request may be.",
    "no_embedded_database": "The embedded database cannot run here; set VODPRESS_DATABASE_URL.",
    "database_owner": "The embedded database of this home belongs to another account.",
    "database_version": "The embedded database of this home was made by another release of PostgreSQL.",
    "home_path_too_long": "The home's path is too long for the database's socket.",
    "home_unusable": "The home cannot be made or used as a folder.",
    "socket_folder_unsafe": "The folder of the database's socket may be changed by others.",
    "unknown_asset": "There is no such asset.",
    "invalid_publish_policy": "The publish policy is neither `all` nor `playable` nor names of rungs.",
    "invalid_queue": "A queue was asked for that there is not, or a number of jobs that cannot be.",
    "unknown_dead_letter": "There is no such dead letter, or it is decided already.",
    "not_waivable": "The video is never published without what was to be waived.",
    "no_such_version": "The asset has no such version to go back to.",
    "source_taken": "Another asset is made from these bytes with the same passthrough.",
    "ambiguous_asset": "Several assets begin with the id that was given.",
}
"""Codes of `InvalidRequest`, all with exit status 2."""


class VodpressError(Exception):
    """Root of every error that vodpress raises on purpose."""


class InvalidRequest(VodpressError):
    """The caller asked for something that cannot be done as asked; nothing was started.

    `code` is stable (`file_not_found`, `unknown_ladder`, …); `message` says what to change.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, code: str, message: str) -> None:
        if code not in REQUEST_CODES:
            raise KeyError(f"{code} is not in the catalogue of request codes")
        super().__init__(message)
        self.code = code
        self.message = message


class LeaseLost(VodpressError):
    """Another worker owns this work now, or it was cancelled: the result at hand must be thrown away."""


class Failure(VodpressError):
    """Work that did not succeed, with everything its owner needs to decide.

    Args:
        code: a code of the catalogue (`CODES`).
        message: what happened, in a sentence for the person who owns the file; defaults to the catalogue's sentence.
        detail: for the operator: stderr tail, exit status, values compared.
        subject: which thing it happened to (asset, rendition, slice, key).
    """

    def __init__(self, code: str, message: str | None = None, *, detail: str = "", subject: str = "") -> None:
        self.entry = CODES[code]
        self.message = message or self.entry.sentence
        self.detail = detail
        self.subject = subject
        super().__init__(f"{code}: {self.message}" + (f" [{subject}]" if subject else ""))

    @property
    def code(self) -> str:
        """The stable code, e.g. `source_unreadable`."""
        return self.entry.code

    @property
    def kind(self) -> FailureKind:
        """Who owns it."""
        return self.entry.kind

    @property
    def exit_code(self) -> ExitCode:
        """Exit status of a command that ends with it."""
        return self.entry.exit_code
