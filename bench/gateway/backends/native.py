"""One provider over HTTP in its own protocol: what goes there and what comes back is changed as little as possible."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from bench.gateway.answers import Rule, rule_of
from bench.gateway.backends import Headers, Response, TransportFault
from bench.gateway.backends.http_client import HttpClient, Incoming
from bench.gateway.config import Provider
from bench.gateway.request import ROUTES, Call, Json, allowed_betas

MAX_ANSWER_BYTES = 50_000_000
_FORWARDED = ("accept", "anthropic-version", "anthropic-beta", "openai-beta", "idempotency-key", "user-agent")
_NOT_RETURNED = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "content-length", "content-encoding", "set-cookie",
        "openai-organization", "openai-project", "anthropic-organization-id",
    }
)  # fmt: skip
"""Hop-by-hop headers, what says whose account it is, and the length, which the next hop counts itself."""


class NativeTransport:
    """One provider over HTTP."""

    def __init__(self, provider: Provider, connect_s: float, hosted: bool) -> None:
        self._provider = provider
        self._hosted = hosted
        self._paths = {dialect: path for path, dialect in ROUTES.items()}
        self._client = HttpClient(provider.url, connect_s)

    def rule(self, call: Call) -> Rule:
        gemini = "generativelanguage.googleapis.com" in self._provider.url
        return rule_of(call.dialect, "gemini" if gemini else "openai")

    async def send(self, call: Call, body: Json, timeout_s: float) -> Response:
        del timeout_s  # the caller stops waiting by itself
        content = json.dumps(body, separators=(",", ":")).encode("ascii")
        incoming = await self._client.post(self._paths[call.dialect], self._headers(call.headers), content)
        if incoming.status == 200 and _is_stream(incoming):
            return await self._begun(incoming)
        content = b"".join([piece async for piece in _bounded(incoming)])
        return Response(incoming.status, _returned(incoming), content)

    async def close(self) -> None:
        await self._client.close()

    def _headers(self, client: Mapping[str, str]) -> dict[str, str]:
        kept = {name: client[name] for name in _FORWARDED if name in client}
        if beta := kept.pop("anthropic-beta", ""):
            beta = allowed_betas(beta, self._hosted)
        return {
            "anthropic-version": "2023-06-01",
            **kept,
            **({"anthropic-beta": beta} if beta else {}),
            "content-type": "application/json",
            "accept-encoding": "identity",
            **self._provider.headers,
        }

    async def _begun(self, incoming: Incoming) -> Response:
        """A stream, after its first piece has come: until then another try is possible."""
        pieces = _bounded(incoming)
        try:
            first = await anext(pieces, b"")
        except BaseException:
            await pieces.aclose()
            raise
        if not first:
            raise TransportFault("lost", "the upstream's stream is empty", billed=True)
        return Response(incoming.status, _returned(incoming), chunks=_chunks(first, pieces))


async def _chunks(first: bytes, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        yield first
        async for piece in pieces:
            yield piece


async def _bounded(incoming: Incoming) -> AsyncGenerator[bytes, None]:
    """The pieces of an answer; `TransportFault` when it is too large."""
    size = 0
    async with aclosing(incoming.body):
        async for piece in incoming.body:
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                message = f"the upstream's answer is larger than {MAX_ANSWER_BYTES} bytes"
                raise TransportFault("invalid", message, billed=True)
            yield piece


def _is_stream(incoming: Incoming) -> bool:
    return any(name.lower() == "content-type" and "event-stream" in value for name, value in incoming.headers)


def _returned(incoming: Incoming) -> Headers:
    return [(name, value) for name, value in incoming.headers if name.lower() not in _NOT_RETURNED]
