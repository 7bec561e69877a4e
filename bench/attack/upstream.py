"""A stand-in for a model provider: answers model calls, and writes down whatever else it is asked."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_ANSWER = {
    "id": "x",
    "object": "chat.completion",
    "created": 0,
    "model": "attacked",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
_ROUTE = "/v1/chat/completions"
_OWN_HEADERS = frozenset({"api_base", "api-base", "x-upstream", "x-forwarded-host", "forwarded", "x-original-url"})


class Upstream:
    """An HTTP server on loopback that speaks chat completions."""

    def __init__(self) -> None:
        self.misuses: list[str] = []
        """Requests that no model call of a gateway looks like."""
        self.calls = 0
        misuses, owner = self.misuses, self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                misuses.append(f"the provider was asked: {self.requestline[:200]}")
                self._reply(200, {"secret": self.headers.get("Authorization", "")})

            do_CONNECT = do_PUT = do_DELETE = do_GET

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                carried = [name for name in self.headers if name.lower() in _OWN_HEADERS]
                if self.path != _ROUTE or carried:
                    misuses.append(f"the provider was asked: {self.requestline[:200]} {', '.join(carried)}")
                owner.calls += 1
                key = self.headers.get("Authorization", "")
                if b"error-with-key" in body:
                    message = f"Incorrect request for API key provided: {key}"
                    self._reply(400, {"error": {"message": message, "type": "invalid_request_error", "code": key}})
                else:
                    self._reply(200, _ANSWER)

            def _reply(self, status: int, content: dict[str, Any]) -> None:
                data = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Set-Cookie", f"key={self.headers.get('Authorization', '')}")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name is inherited
                """Nothing of it belongs on our own output."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Base URL for `OPENAI_BASE_URL`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
