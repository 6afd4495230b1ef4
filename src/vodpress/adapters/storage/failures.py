"""From what the system or obstore raised to what the port promises."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError

from vodpress.domain.failure import Failure
from vodpress.ports import ObjectExists, ObjectMissing


def disk_failure(error: OSError, operation: str, key: str) -> Failure:
    """The failure for an error of a local disk: `disk_full` or `storage_unavailable`."""
    detail = f"{operation} {key}: {error}"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Failure("disk_full", detail=detail, subject=key)
    if error.errno == errno.EFBIG:  # RLIMIT_FSIZE, or what the file system can address: no room, either
        message = "A file would grow larger than the limit of this process or of the file system."
        return Failure("disk_full", message, detail=detail, subject=key)
    message = f"Could not {operation} '{key}': {error.strerror or error}. Check the disk; it is retried."
    return Failure("storage_unavailable", message, detail=detail, subject=key)


def check_size(found: int | None, wanted: int, operation: str, key: str) -> None:
    """Raise `storage_unavailable` when an object has not the size it must have. `None` stands for no object."""
    if found != wanted:
        message = f"The storage holds {found or 0} of {wanted} bytes of '{key}' after {operation}; it is retried."
        raise Failure("storage_unavailable", message, detail=f"{operation} {key}: short write", subject=key)


@contextmanager
def s3_reported(operation: str, key: str, *, reads: bool = False) -> Iterator[None]:
    """Turn what obstore raises in the block into `ObjectExists`, `ObjectMissing` or `storage_unavailable`.

    Args:
        operation: for the message.
        key: for the message.
        reads: whether "not found" means the object; in a write it can only mean the bucket.
    """
    try:
        yield
    except AlreadyExistsError as error:
        raise ObjectExists(f"{operation}: there is an object at '{key}' already") from error
    except FileNotFoundError as error:
        if reads and "NoSuchBucket" not in str(error):
            raise ObjectMissing(f"{operation}: there is no object at '{key}'") from error
        raise _unavailable(
            "The bucket does not exist. Create it or correct storage_url", error, operation, key
        ) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise _unavailable("The object storage refused the credentials", error, operation, key) from error
    except BaseError as error:
        raise _unavailable("The object storage did not answer as it should", error, operation, key) from error


def _unavailable(what: str, error: Exception, operation: str, key: str) -> Failure:
    reason = str(error).split("\n\nDebug source", maxsplit=1)[0].strip()
    return Failure(
        "storage_unavailable", f"{what} ({operation} '{key}').", detail=f"{operation} {key}: {reason}", subject=key
    )
