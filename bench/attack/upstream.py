"""The stand-in of a model provider that attacks may poison, and that notes what no gateway would send."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_COMPLETION = {
    "id": "x",
    "object": "chat.completion",
    "created": 0,
    "model": "attacked",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_RESPONSE = {
    "id": "x",
    "object": "response",
    "created_at": 0,
    "status": "completed",
    "model": "attacked",
    "output": [
        {
            "type": "message",
            "id": "m",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "no", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
}
# The gateway's own request tries the second one where the first one has not worked yet.
_ROUTES = {"/v1/chat/completions": _COMPLETION, "/v1/responses": _RESPONSE}
_POISON = re.compile(rb"poison-([45][0-9]{2}|odd|cut|reset)")
"""Requests that the provider cannot answer well, while it answers all others."""
_OWN_HEADERS = frozenset({"api_base", "api-base", "x-upstream", "x-forwarded-host", "forwarded", "x-original-url"})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.misuses: list[str] = []
        self.calls = 0


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.misuses.append(f"the provider was asked: {self.requestline[:200]}")
        self._reply(200, {"secret": self.headers.get("Authorization", "")})

    do_CONNECT = do_PUT = do_DELETE = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        carried = [name for name in self.headers if name.lower() in _OWN_HEADERS]
        if self.path not in _ROUTES or carried:
            self.server.misuses.append(f"the provider was asked: {self.requestline[:200]} {', '.join(carried)}")
        self.server.calls += 1
        key = self.headers.get("Authorization", "")
        poison = _POISON.search(body)
        if poison is not None:
            self._poisoned(poison[1].decode())
        elif b"error-with-key" in body:
            message = f"Incorrect request for API key provided: {key}"
            self._reply(400, {"error": {"message": message, "type": "invalid_request_error", "code": key}})
        else:
            self._reply(200, _ROUTES.get(self.path, {}))

    def _poisoned(self, kind: str) -> None:
        """The answer that a request has asked for: a status, or none of the answers that a client can read."""
        self.close_connection = True
        if kind == "odd":
            self._send(200, b"[1, 2")
        elif kind == "cut":
            self._send(200, json.dumps(_COMPLETION).encode()[:40], promised=4000)
        elif kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self._reply(int(kind), {"error": {"message": f"refused with {kind}", "type": "api_error"}})

    def _reply(self, status: int, content: dict[str, Any]) -> None:
        self._send(status, json.dumps(content).encode())

    def _send(self, status: int, data: bytes, promised: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(promised or len(data)))
        self.send_header("Set-Cookie", f"key={self.headers.get('Authorization', '')}")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is inherited
        """Keep requests out of the output of the campaign."""


class Upstream:
    """An HTTP server on loopback that speaks chat completions and responses."""

    def __init__(self) -> None:
        self._server = _Server()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def misuses(self) -> list[str]:
        """Requests that the gateway would never send for a model call."""
        return self._server.misuses

    @property
    def calls(self) -> int:
        return self._server.calls

    @property
    def address(self) -> str:
        """Base URL for `OPENAI_BASE_URL`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
