"""Which keys are accepted. The same rules for every storage, so that objects can be copied from one to another."""

from __future__ import annotations

from vodpress.domain.failure import InvalidRequest

PARTIAL = ".partial"
"""First segment of everything that is still being written. No key may start with it and no listing shows it."""

_LONGEST_KEY_BYTES = 1024  # S3
_LONGEST_SEGMENT_BYTES = 255  # common file systems


def check_key(key: str) -> str:
    """Return `key` unchanged when it can be stored everywhere.

    Raises:
        InvalidRequest: code `invalid_key`.
    """
    fault = _fault(key)
    if fault:
        raise InvalidRequest("invalid_key", f"The object key {key!r} {fault}.")
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` unchanged when it is empty or a valid key followed by `/`.

    Raises:
        InvalidRequest: code `invalid_key`.
    """
    if prefix:
        if not prefix.endswith("/"):
            raise InvalidRequest("invalid_key", f"The prefix {prefix!r} does not end in '/'.")
        check_key(prefix[:-1])
    return prefix


def _fault(key: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 or "\ud800" <= character <= "\udfff" for character in key):
        return "holds a control character"
    if "\\" in key:
        return "holds a backslash, which some storages take for '/'"
    segments = key.split("/")
    if "" in segments:
        return "has an empty segment"
    if "." in segments or ".." in segments:
        return "has a segment '.' or '..'"
    if segments[0] == PARTIAL:
        return f"starts with '{PARTIAL}', which is kept for unfinished writes"
    if len(key.encode()) > _LONGEST_KEY_BYTES:
        return f"is longer than {_LONGEST_KEY_BYTES} bytes"
    if any(len(segment.encode()) > _LONGEST_SEGMENT_BYTES for segment in segments):
        return f"has a segment longer than {_LONGEST_SEGMENT_BYTES} bytes"
    return ""
