"""A web server for one file on loopback that knows ranges, and that fails in the ways of real ones when told to."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FileServer(ThreadingHTTPServer):
    """Serves `content` at every path."""

    daemon_threads = True

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = content
        self.ranges: list[str] = []
        """Of each request, as it was asked."""
        self.sent = 0
        self.cut_after: int | None = None
        """Bytes of each answer after which the connection is closed."""
        self.stall_after: int | None = None
        """Bytes of each answer after which nothing comes any more."""
        self.knows_ranges = True
        self.tells_length = True
        self.statuses: list[int] = []
        """Of the next requests, in place of the file."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/data/archive.tar.gz"

    def source(self, **changes: Any) -> dict[str, Any]:
        """The facts of case.yaml about the file."""
        sha256 = hashlib.sha256(self.content).hexdigest()
        return {"url": self.url, "sha256": sha256, "bytes": len(self.content), "licence": "CC0-1.0", **changes}

    def whole_downloads(self) -> list[str]:
        """Requests but those of one byte, which only look."""
        return [asked for asked in self.ranges if asked != "bytes=0-0"]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go."""


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        server, asked = self.server, self.headers.get("Range", "")
        server.ranges.append(asked)
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        content, size = server.content, len(server.content)
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", asked) if server.knows_ranges else None
        start, end = (int(found[1]), min(int(found[2] or size), size - 1) + 1) if found else (0, size)
        if found and start >= size:
            self.send_error(416)
            return
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        if server.tells_length:
            self.send_header("Content-Length", str(end - start))
        self.end_headers()
        piece = content[start:end][: server.cut_after]
        if server.stall_after is not None:
            self.wfile.write(piece[: server.stall_after])
            self.wfile.flush()
            server.sent += len(piece[: server.stall_after])
            time.sleep(60)
        self.wfile.write(piece)
        server.sent += len(piece)
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Nothing."""


@contextmanager
def file_server(content: bytes) -> Iterator[FileServer]:
    server = FileServer(content)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
