"""Real parts for tests of the gateway: cassettes on disk, clients on its socket, a scripted upstream over real HTTP."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.gateway.budget import CellLimits
from bench.gateway.call_log import messages_path, read_messages
from bench.gateway.launch import Gateway, GatewaySpec, open_gateway
from tests.helpers.cells import as_settings

TASK = "# A task\n\nSay hello. Grüße.\n"
PRICES = {"input": 3.0, "output": 15.0, "cache_read": 0.3}
Json = dict[str, Any]


def turn(content: str = "", *calls: tuple[str, object], tokens: tuple[int, int, int] = (100, 20, 0)) -> Json:
    return {
        "content": content,
        "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls],
        "usage": {"input": tokens[0], "output": tokens[1], "cache_read": tokens[2]},
    }


def write_cassette(root: Path, turns: list[Json], case: str = "demo_case", task: str = TASK, **changes: object) -> Path:
    """A cassette in the set `demo`; returns the folder of sets."""
    digest = hashlib.sha256(task.encode()).hexdigest()
    content = {
        "schema": 1, "model": "anthropic/claude-sonnet-4-5", "prices": PRICES, "task_sha256": digest, "turns": turns,
        **changes,
    }  # fmt: skip
    (root / "demo").mkdir(parents=True, exist_ok=True)
    (root / "demo" / f"{case}.yaml").write_text(as_settings(content), encoding="utf-8")
    return root


def spec_in(folder: Path, **changes: Any) -> GatewaySpec:
    """A cell with a cassette in `folder`; `changes` are fields of `GatewaySpec` or of its limits."""
    facts: Json = {
        "socket": folder / "g.sock", "ledger": folder / "calls.jsonl", "models": {"main": "replay/demo"},
        "case": "demo_case", "cassettes": folder / "cassettes", **changes,
    }  # fmt: skip
    limits: Json = {"calls": 10, "cost_usd": 1.0, "deadline": time.monotonic() + 60}
    limits |= {name: facts.pop(name) for name in CellLimits.model_fields if name in facts}
    return GatewaySpec(limits=CellLimits(**limits), **facts)


@contextlib.contextmanager
def replaying(folder: Path, turns: list[Json], **changes: Any) -> Iterator[Gateway]:
    write_cassette(folder / "cassettes", turns)
    with open_gateway(spec_in(folder, **changes)) as gateway:
        yield gateway


def ledger_lines(path: Path) -> list[Json]:
    """The lines of a ledger, each with the messages that are new in its request."""
    bodies = read_messages(messages_path(path))
    # What comes after the last line break is still being written.
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    return [{**line, "new_messages": [bodies[it] for it in (line["sent"] or {}).get("new", [])]} for line in lines]


@dataclass(frozen=True)
class Heard:
    status: int
    body: Json

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"])

    @property
    def message(self) -> Json:
        found: Json = self.body["choices"][0]["message"]
        return found


@dataclass
class Client:
    """A client that speaks HTTP over the gateway's Unix socket."""

    socket: Path
    key: str

    def chat(self, *messages: Json, **fields: object) -> Heard:
        return self.post({"model": "bench-main", "messages": list(messages), **fields})

    def post(self, body: object, headers: dict[str, str] | None = None) -> Heard:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", "/v1/chat/completions", data, headers)

    def chunked(self, parts: list[bytes]) -> Heard:
        """A request whose body comes in chunks."""
        return self.request("POST", "/v1/chat/completions", iter(parts))

    def request(
        self, method: str, path: str, data: bytes | Iterator[bytes] = b"", headers: dict[str, str] | None = None
    ) -> Heard:
        connection = http.client.HTTPConnection("gateway", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(os.fspath(self.socket))
        with contextlib.closing(connection):
            connection.request(method, path, data, {"Authorization": f"Bearer {self.key}", **(headers or {})})
            response = connection.getresponse()
            return Heard(response.status, json.loads(response.read()))


def user(text: str = TASK) -> Json:
    return {"role": "user", "content": text}


def answered(heard: Heard, *results: str) -> list[Json]:
    """The answer as history, with one tool message per call."""
    calls = heard.message.get("tool_calls") or []
    tools = [
        {"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in zip(calls, results, strict=True)
    ]
    return [heard.message, *tools]


@dataclass(frozen=True)
class Scripted:
    """One answer of the upstream; `hang_s` waits before it, `cut` ends the connection in its middle."""

    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    hang_s: float = 0.0
    cut: bool = False


def completion(prompt: int = 1000, output: int = 50, cached: int = 0, **changes: object) -> Scripted:
    usage = {
        "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": min(10, output)},
    }  # fmt: skip
    message = {"role": "assistant", "content": "hello"}
    body = {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage, **changes,
    }  # fmt: skip
    return Scripted(body=body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are part of some tests."""


class Upstream:
    """An OpenAI-compatible server that answers by its script, then with `always`."""

    def __init__(self, script: list[Scripted], always: Scripted | None = None) -> None:
        self.requests: list[tuple[dict[str, str], Json]] = []
        self._script: queue.SimpleQueue[Scripted] = queue.SimpleQueue()
        for item in script:
            self._script.put(item)
        self._always = always or Scripted(500, {"error": {"message": "the script is over"}})
        self._lock = threading.Lock()
        self.under_way = 0
        self.most_under_way = 0
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Upstream:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environment(self, key: str = "sk-upstream-secret-0123456789") -> dict[str, str]:
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": key}

    def _next(self) -> Scripted:
        try:
            return self._script.get_nowait()
        except queue.Empty:
            return self._always

    def _handler(upstream) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with upstream._lock:
                    upstream.requests.append((dict(self.headers), {"path": self.path, **body}))
                    upstream.under_way += 1
                    upstream.most_under_way = max(upstream.most_under_way, upstream.under_way)
                scripted = upstream._next()
                time.sleep(scripted.hang_s)
                with upstream._lock:
                    upstream.under_way -= 1
                self._send(scripted)

            def _send(self, scripted: Scripted) -> None:
                raw = scripted.body
                data = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
                self.send_response(scripted.status)
                for name, value in scripted.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data[: len(data) // 2] if scripted.cut else data)
                if scripted.cut:
                    self.close_connection = True

            def log_message(self, *arguments: object) -> None:
                """The script is all there is to say."""

        return Handler


UNLIMITED = None
