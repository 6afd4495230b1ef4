"""Object storage behind one port: a local folder, or S3 and what speaks its protocol."""

from vodpress.adapters.storage.location import open_store

__all__ = ["open_store"]
