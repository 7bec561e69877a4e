"""A scripted model provider over real HTTP: OpenAI chat and responses, Anthropic messages, Gemini, embeddings.

    with ScriptedUpstream([Reply("hello"), Reply(tool_calls=[ToolCall("run", {"command": "ls"})])]) as upstream:
        ...  # upstream.url, upstream.environment(), upstream.requests, upstream.usage_totals

The script is a list, answered in order and then with status 500, or a function of (request, protocol), where the
protocol is `chat`, `responses`, `messages` or `generate`. It counts calls, tokens and cost by itself, so that a
record can be compared with it. `Reply` also plays faults: see its fields.
"""

from __future__ import annotations

import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from tests.helpers.provider_wire import Json, Reply, ToolCall, Usage, events, fault, whole

__all__ = ["PRICES", "Reply", "ScriptedUpstream", "ToolCall", "Usage"]

Script: TypeAlias = "Callable[[Json, str], Reply] | Sequence[Reply]"
CANARY = "sk-canary-0123456789abcdefghijklmnop"
"""The provider key that `environment` hands out: nothing may ever show it."""
PRICES = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write_5m": 3.75, "cache_write_1h": 6.0}
"""US dollars per million tokens by which the upstream counts its own cost."""
_GOOGLE = re.compile(r"/v1(?:beta)?/models/([^:]+):(generateContent|streamGenerateContent\?alt=sse|countTokens)$")
_PATHS = {
    "/chat/completions": "chat", "/responses": "responses", "/messages": "messages",
    "/messages/count_tokens": "count_tokens", "/embeddings": "embeddings",
}  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    protocol: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Json


@dataclass
class Totals:
    """What the provider would put on its bill: answers it has sent in full."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    cost_usd: float = 0.0
    faults: int = 0
    """Answers that were no answers: another status, cut off, or not well-formed."""

    def add(self, usage: Usage, prices: dict[str, float]) -> None:
        self.calls += 1
        for name in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "reasoning"):
            count = getattr(usage, name)
            setattr(self, name, getattr(self, name) + count)
            self.cost_usd += count * prices.get(name, 0.0) / 1e6


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are part of some tests."""


@dataclass
class ScriptedUpstream:
    script: Script
    prices: dict[str, float] = field(default_factory=lambda: dict(PRICES))
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    """The name it has in `url`."""
    requests: list[Seen] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    """Bodies of the answers, whole, in the order in which they were begun."""
    usage_totals: Totals = field(default_factory=Totals)
    most_under_way: int = 0
    _under_way: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> ScriptedUpstream:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if self.tls is not None:
            # The handshake is the business of each connection's own thread.
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Without `/v1`."""
        scheme = "https" if self.tls is not None else "http"
        return f"{scheme}://{self.host}:{self._server.server_port}"

    def environment(self, key: str = CANARY) -> dict[str, str]:
        """What the runner's environment holds to reach this provider."""
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": key,
            "GOOGLE_GEMINI_BASE_URL": self.url, "GEMINI_API_KEY": key,
        }  # fmt: skip

    def begin(self, seen: Seen) -> tuple[Reply, int]:
        """Note a request; its answer and its number."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(seen)
            self.sent.append(b"")
            self._under_way += 1
            self.most_under_way = max(self.most_under_way, self._under_way)
            if callable(self.script):
                return self.script(seen.body, seen.protocol), number
            over = Reply(status=500, error="the script is over")
            return (self.script[number] if number < len(self.script) else over), number

    def end(self, reply: Reply, number: int, body: bytes, billed: bool) -> None:
        """Count an answer before its last byte leaves."""
        with self._lock:
            self.sent[number] = body
            self._under_way -= 1
            if not billed:
                self.usage_totals.faults += 1
            else:
                self.usage_totals.add(reply.usage, self.prices)


class _Wire(BaseHTTPRequestHandler):
    """Whole answers, without a log."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def whole(self, status: int, headers: dict[str, str], data: bytes, cut: float | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data if cut is None else data[: int(len(data) * cut)])
            self.wfile.flush()
        if cut is not None:
            self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        """What was asked is in `requests`."""


def _handler(upstream: ScriptedUpstream) -> type[BaseHTTPRequestHandler]:
    class Handler(_Wire):
        def do_GET(self) -> None:
            data = [{"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}]
            self.whole(200, {}, json.dumps({"object": "list", "data": data}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = self.path.partition("?")[0].removeprefix("/v1")
            protocol, named = _PATHS.get(path, "unknown"), _GOOGLE.search(self.path)
            if named:
                protocol = "count_generate" if named[2] == "countTokens" else "generate"
            if protocol in ("count_tokens", "count_generate"):
                name = "input_tokens" if protocol == "count_tokens" else "totalTokens"
                self.whole(200, {}, json.dumps({name: len(json.dumps(body)) // 4}).encode())
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen = Seen(protocol, self.path, headers, body)
            reply, number = upstream.begin(seen)
            time.sleep(reply.hang_s)
            if protocol == "embeddings":
                self._send(reply, number, json.dumps(_embeddings(body, reply)).encode())
                return
            if named:
                body = {**body, "model": named[1], "stream": named[2].startswith("stream")}
            if reply.status != 200 or reply.raw is not None or not body.get("stream"):
                self._send(reply, number, _body(reply, protocol, number, body))
            else:
                self._stream(reply, number, list(events(protocol, reply, number, body)))

        def _send(self, reply: Reply, number: int, data: bytes) -> None:
            billed = reply.status == 200 and reply.raw is None and reply.cut is None
            upstream.end(reply, number, data, billed)
            self.whole(reply.status, reply.headers, data, reply.cut)

        def _stream(self, reply: Reply, number: int, parts: list[bytes]) -> None:
            self.send_response(200)
            for name, value in {"Content-Type": "text/event-stream; charset=utf-8", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            kept = parts if reply.cut is None else parts[: int(len(parts) * reply.cut)]
            with contextlib.suppress(OSError):
                for number_sent, part in enumerate(kept):
                    if reply.slow_after is not None and number_sent >= reply.slow_after:
                        time.sleep(0.02)
                    self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                    self.wfile.flush()
            upstream.end(reply, number, b"".join(kept), reply.cut is None)
            with contextlib.suppress(OSError):
                if reply.cut is None:
                    self.wfile.write(b"0\r\n\r\n")
                    self.wfile.flush()
                else:
                    self.close_connection = True

    return Handler


def _body(reply: Reply, protocol: str, number: int, request: Json) -> bytes:
    if reply.raw is not None:
        return reply.raw
    shown: Any = (
        fault(protocol, reply) if reply.status != 200 else whole(protocol, reply, number, str(request["model"]))
    )
    return json.dumps(shown, ensure_ascii=False).encode()


def _embeddings(request: Json, reply: Reply) -> Json:
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    data = [{"object": "embedding", "index": i, "embedding": [0.25, -0.5]} for i, _ in enumerate(texts)]
    usage = {"prompt_tokens": reply.usage.input, "total_tokens": reply.usage.input}
    return {"object": "list", "data": data, "model": request["model"], "usage": usage}
