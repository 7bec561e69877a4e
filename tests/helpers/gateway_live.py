"""A gateway in front of a scripted upstream, and clients that reach it over a loopback port as agents do."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bench.gateway.config import Patience
from bench.gateway.launch import Gateway, open_gateway
from bench.guest.forwarding import forward, listen
from tests.helpers.gateway import Json, ledger_lines, spec_in
from tests.helpers.provider import CANARY, PRICES, ScriptedUpstream, Seen

QUICK = Patience(
    tries=3, first_wait_s=0.01, longest_wait_s=2.0, connect_s=10.0, answer_s=10.0, probe_s=10.0, quiet_s=0.05,
    late_s=600.0,
)  # fmt: skip
HASTY = QUICK.model_copy(update={"answer_s": 0.5, "probe_s": 0.5})
MODELS = {"main": "openai/scripted", "claude": "anthropic/scripted"}
WINDOW = 50_000
"""Tokens that the scripted models take in."""
ALL_MODELS = {**MODELS, "gemini": "gemini/scripted"}
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of loopback: each would read the machine's certificates, which takes it 30 ms."""
_ENDPOINTS = {"chat": "chat/completions", "responses": "responses", "messages": "messages"}


@dataclass
class Live:
    """An open gateway and everything around it."""

    gateway: Gateway
    url: str
    folder: Path

    @property
    def lines(self) -> list[Json]:
        return ledger_lines(self.folder / "calls.jsonl")

    def post(self, protocol: str, **fields: Any) -> httpx.Response:
        """A small request in `protocol`, with `fields` over it."""
        path = _ENDPOINTS.get(protocol, protocol)
        return httpx.post(
            f"{self.url}/v1/{path}", json=request(protocol) | fields, headers=self.headers, timeout=30, verify=NO_TLS
        )

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.gateway.key}"}


def request(protocol: str) -> Json:
    """The smallest request of a protocol."""
    said = [{"role": "user", "content": "hello"}]
    bodies: dict[str, Json] = {
        "chat": {"model": "bench-main", "messages": said, "max_tokens": 100},
        "responses": {"model": "bench-main", "input": said, "max_output_tokens": 100},
        "messages": {"model": "bench-claude", "messages": said, "max_tokens": 100},
    }
    return bodies.get(protocol, {"model": "bench-main", "input": ["hello"]})


def storm(through: Live, callers: int, **fields: Any) -> list[int]:
    """Statuses of as many chat requests at once as there are callers, with `fields` over the smallest."""
    with httpx.Client(
        headers=through.headers, timeout=60, limits=httpx.Limits(max_connections=callers), verify=NO_TLS
    ) as client:
        url, body = f"{through.url}/v1/chat/completions", request("chat") | fields
        with ThreadPoolExecutor(callers) as pool:
            return list(pool.map(lambda _: client.post(url, json=body).status_code, range(callers)))


def own_prices(folder: Path) -> Path:
    """A file with the prices by which the scripted upstream counts."""
    path = folder / "prices.json"
    renamed = {name.replace("_5m", ""): value for name, value in PRICES.items()} | {"max_input": WINDOW}
    path.write_text(
        json.dumps({"schema": 1, "version": "tests", "models": dict.fromkeys(ALL_MODELS.values(), renamed)})
    )
    return path


@contextlib.contextmanager
def live(folder: Path, upstream: ScriptedUpstream, **changes: Any) -> Iterator[Live]:
    """A gateway for both roles, whose socket is reached over a port."""
    facts: Json = {
        "models": MODELS, "cassettes": None, "environment": {**upstream.environment(), "PATH": "/usr/bin:/bin"},
        "patience": QUICK, "own_prices": own_prices(folder), "calls": 1000, "cost_usd": 10.0, **changes,
    }  # fmt: skip
    with open_gateway(spec_in(folder, **facts)) as gateway:
        listener = listen()
        forward(listener, str(folder / "g.sock"))
        yield Live(gateway, f"http://127.0.0.1:{listener.getsockname()[1]}", folder)


def asked_by_agent(upstream: ScriptedUpstream) -> list[Seen]:
    """The requests that were not probes of the gateway."""
    return [seen for seen in upstream.requests if "Reply with the word OK." not in json.dumps(seen.body)]


def written_below(folder: Path) -> str:
    """Everything that lies in files below `folder`."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


__all__ = [
    "ALL_MODELS", "CANARY", "HASTY", "MODELS", "NO_TLS", "QUICK", "UNLIMITED", "WINDOW", "Live", "asked_by_agent",
    "live", "own_prices", "request", "written_below",
]  # fmt: skip
UNLIMITED = None
