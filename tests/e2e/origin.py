"""A web server on loopback for what a player loads: folders under URL prefixes, with the types a CDN would send."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Origin(ThreadingHTTPServer):
    """The server. `refused` lists every request that was not answered with what was asked for."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self.folders = folders
        self.refused: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A player that thinks better of a segment hangs up; anything else is a fault of ours."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
            self.refused.append(f"{sys.exception()!r}")


class _Handler(SimpleHTTPRequestHandler):
    server: Origin
    protocol_version = "HTTP/1.1"
    extensions_map = {  # noqa: RUF012 - so declared in the base class
        ".css": "text/css",
        ".html": "text/html; charset=utf-8",
        ".jpg": "image/jpeg",
        ".js": "text/javascript; charset=utf-8",
        ".m3u8": "application/vnd.apple.mpegurl",
        ".m4s": "video/iso.segment",
        ".mp4": "video/mp4",
        ".mpd": "application/dash+xml",
        ".vtt": "text/vtt; charset=utf-8",
        "": "application/octet-stream",
    }

    def translate_path(self, path: str) -> str:
        """The file of a URL's path: the first part names a folder, the rest lies below it."""
        prefix, _, rest = path.partition("?")[0].lstrip("/").partition("/")
        folder = self.server.folders.get(prefix)
        if folder is None or ".." in rest.split("/"):
            return "/dev/null/nothing"
        return str(folder / rest)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Keep what was refused; the rest is of no interest."""
        del size
        if int(code) >= 400:
            self.server.refused.append(f"{code} {self.path}")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Say nothing on the terminal."""


@contextmanager
def serving(folders: Mapping[str, Path]) -> Iterator[Origin]:
    """A server in a thread, on a free port."""
    with Origin(folders) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
