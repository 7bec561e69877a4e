"""HTTP/1.1 over a Unix socket: reads requests, checks the key, answers in JSON."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

from pydantic import JsonValue

from bench.errors import UserError
from bench.gateway.gate import Gateway
from bench.gateway.protocol import MAX_BODY_BYTES, RequestRefused

_LONGEST_SOCKET_PATH = 107
"""Linux keeps a Unix socket's address in 108 bytes, the closing zero among them."""
_MOST_CONNECTIONS = 64
_IDLE_S = 120.0
_CHUNK = 1 << 16


class Endpoint(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """The listening socket of one cell; a thread a connection, and no more connections than a bound."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, path: Path, gateway: Gateway) -> None:
        check_socket_path(path)
        self.gateway = gateway
        self._path = path
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Handler)
        path.chmod(0o600)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="gateway", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop listening, remove the socket and cut every connection."""
        self.shutdown()
        self._thread.join()
        self.server_close()
        self._path.unlink(missing_ok=True)
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def verify_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> bool:
        """Take the connection, unless there are too many."""
        assert isinstance(request, socket.socket)  # a stream server has no other kind
        with self._lock:
            if len(self._connections) >= _MOST_CONNECTIONS:
                return False
            self._connections.add(request)
        return True

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is not worth a traceback; faults of ours are answered with 500."""


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"
    server_version = "ml-dev-bench"
    sys_version = ""
    timeout = _IDLE_S
    routes: ClassVar[Mapping[str, str]] = {"/v1/chat/completions": "POST", "/v1/models": "GET"}

    def do_GET(self) -> None:
        self._answer(self._models)

    def do_POST(self) -> None:
        self._answer(self._chat)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """The ledger is the log."""

    def _answer(self, make: Callable[[], dict[str, JsonValue]]) -> None:
        status = 200
        self._unread = self._announced()
        try:
            self._check_route()
            body = make()
        except RequestRefused as refused:
            status, body = refused.status, refused.body()
            self._drain()
        except ConnectionError:
            self.close_connection = True
            return
        except Exception as error:
            status = 500
            body = RequestRefused(500, "gateway_broken", f"the gateway failed: {type(error).__name__}").body()
        data = json.dumps(body).encode("ascii")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status != 200:
            self.close_connection = True
            self.send_header("Connection", "close")
            # OpenAI's own clients repeat calls by themselves unless told not to.
            self.send_header("X-Should-Retry", "false")
        self.end_headers()
        self.wfile.write(data)

    def _check_route(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        method = self.routes.get(path)
        if method is None:
            raise RequestRefused(404, "not_found", f"no {path[:100]!r} here; there are: {', '.join(self.routes)}")
        if method != self.command:
            raise RequestRefused(405, "method_not_allowed", f"{path} takes {method}")
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not self.server.gateway.admits(token.strip()):
            raise RequestRefused(401, "invalid_api_key", "this is not the key of this run, or the run is over")

    def _models(self) -> dict[str, JsonValue]:
        data: list[JsonValue] = [
            {"id": alias, "object": "model", "created": 0, "owned_by": "ml-dev-bench"}
            for alias in self.server.gateway.aliases()
        ]
        return {"object": "list", "data": data}

    def _chat(self) -> dict[str, JsonValue]:
        return self.server.gateway.chat(self._body())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding"):
            raise RequestRefused(411, "length_required", "chunked bodies are not taken; send Content-Length")
        length = self._unread
        if not length:
            raise RequestRefused(411, "length_required", "send a body with its Content-Length")
        if length > MAX_BODY_BYTES:
            raise RequestRefused(413, "too_large", f"the body has {length} bytes; {MAX_BODY_BYTES} are the most")
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionAbortedError("the client went away")
        self._unread = 0
        return body

    def _announced(self) -> int:
        """The length of the request's body, 0 when it is not told or makes no sense."""
        length = self.headers.get("Content-Length") or ""
        return int(length) if re.fullmatch(r"[0-9]{1,18}", length) else 0

    def _drain(self) -> None:
        """Read what the client still sends: closing over unread bytes would destroy the answer on its way."""
        left = min(self._unread, 4 * MAX_BODY_BYTES)
        while left > 0 and (chunk := self.rfile.read(min(left, _CHUNK))):
            left -= len(chunk)


def check_socket_path(path: Path) -> None:
    """Raise `UserError` when no Unix socket can have this path."""
    size = len(os.fsencode(path))
    if size > _LONGEST_SOCKET_PATH:
        raise UserError(
            f"a socket's path can have {_LONGEST_SOCKET_PATH} bytes, this has {size}",
            where=path,
            remedy="put the run into a folder with a shorter path",
        )
