"""Every object key. A key is a function of the input, never random: a repeated attempt writes the same place."""

from __future__ import annotations

_SHORT = 16  # hexadecimal digits of a hash that go into a key: 64 bits


def source_key(*, tenant: str, sha256: str) -> str:
    """The verified source; the same bytes of one tenant are stored once."""
    return f"sources/{tenant}/{sha256[:2]}/{sha256}"


def incoming_key(*, upload_id: str) -> str:
    """Where an upload is received before it is verified."""
    return f"incoming/{upload_id}"


def asset_prefix(asset_id: str) -> str:
    """Everything made for an asset."""
    return f"videos/{asset_id}/"


def plan_prefix(*, asset_id: str, source_sha256: str, plan_hash: str) -> str:
    """Everything made for an asset by one plan."""
    return f"{asset_prefix(asset_id)}{source_sha256[:_SHORT]}/{plan_hash[:_SHORT]}/"


def slice_key(prefix: str, *, rendition: str, index: int) -> str:
    """One encoded slice of one rendition, below a plan's prefix."""
    return f"{prefix}{rendition}/slices/{index:05d}.mp4"


def rendition_key(prefix: str, *, rendition: str) -> str:
    """A whole rendition, below a plan's prefix."""
    return f"{prefix}{rendition}/{rendition}.mp4"


def image_prefix(prefix: str) -> str:
    """Poster and storyboard of a plan."""
    return f"{prefix}images/"


def version_prefix(prefix: str, *, version: int) -> str:
    """One published version: an immutable folder with everything a player needs."""
    return f"{prefix}v{version}/"


MANIFEST_NAME = "manifest.json"
