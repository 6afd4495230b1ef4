"""From what the settings say of the storage to a store."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from obstore.store import S3Store
from pydantic import SecretStr

from vodpress.adapters.storage.key_rules import check_key
from vodpress.adapters.storage.local import LocalObjectStore
from vodpress.adapters.storage.s3 import S3ObjectStore
from vodpress.domain.failure import InvalidRequest

if TYPE_CHECKING:  # obstore has these types in its stubs only
    from obstore.store import ClientConfig, RetryConfig, S3Config

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NO_LIMIT = timedelta(days=7)  # obstore's own limit of 30 s for a whole request would end every long download


def open_store(
    location: str,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    access_key_id: str | None = None,
    secret_access_key: str | SecretStr | None = None,
) -> LocalObjectStore | S3ObjectStore:
    """Open the storage at `location`: a folder (a path or `file:///folder`) or `s3://bucket/prefix`.

    Args:
        location: the place. A local folder is made when it is missing.
        endpoint: URL of an S3-compatible server; `None` for Amazon's. With `http://` nothing is encrypted.
        region: S3 region; `None` for `us-east-1` or what `AWS_REGION` says.
        access_key_id: `None` for the AWS environment variables or the machine's role.
        secret_access_key: as `access_key_id`.

    Raises:
        InvalidRequest: code `invalid_storage_url`.
        Failure: code `storage_unavailable` or `disk_full` when the local folder cannot be made.
    """
    if not _SCHEME.match(location):
        return LocalObjectStore(Path(location).expanduser())
    parts = urlsplit(location)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and len(parts.path) > 1 and not parts.query:
        return LocalObjectStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc and not (parts.query or parts.fragment):
        config: S3Config = {"bucket": parts.netloc}
        if endpoint is not None:
            config["endpoint"] = _checked_endpoint(endpoint)
        if region is not None:
            config["region"] = region
        if access_key_id is not None and secret_access_key is not None:
            config["access_key_id"] = access_key_id
            config["secret_access_key"] = (
                secret_access_key if isinstance(secret_access_key, str) else secret_access_key.get_secret_value()
            )
        http = (endpoint or "").startswith("http://")
        prefix = check_key(parts.path.strip("/")) if parts.path.strip("/") else None
        quick = _client(prefix, config, allow_http=http, answer_seconds=4, retry_seconds=5)
        bulk = _client(prefix, config, allow_http=http, answer_seconds=60, retry_seconds=90)
        return S3ObjectStore(quick, bulk)
    raise InvalidRequest(
        "invalid_storage_url", f"'{location}' is no place for a storage. Use a folder, file:///… or s3://bucket/prefix."
    )


def _checked_endpoint(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidRequest("invalid_storage_url", f"s3_endpoint '{endpoint}' is no URL; it starts with https://.")
    return endpoint


def _client(
    prefix: str | None, config: S3Config, *, allow_http: bool, answer_seconds: float, retry_seconds: float
) -> S3Store:
    """A client that gives up after about twice `answer_seconds` without a byte: a first try and one or two more."""
    client: ClientConfig = {
        "allow_http": allow_http,
        "connect_timeout": timedelta(seconds=3),
        "read_timeout": timedelta(seconds=answer_seconds),
        "timeout": _NO_LIMIT,
    }
    retry: RetryConfig = {
        "max_retries": 2,
        "retry_timeout": timedelta(seconds=retry_seconds),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
    }
    return S3Store(prefix=prefix, client_options=client, retry_config=retry, **config)
