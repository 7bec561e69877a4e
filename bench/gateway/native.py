"""Speaks to a provider in the client's own protocol. The provider's key leaves this process only through here."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from bench.gateway.config import Provider
from bench.gateway.policy import allowed_betas
from bench.gateway.protocol import ROUTES, Call, Json
from bench.gateway.source import Headers
from bench.gateway.usage import Rule
from bench.gateway.wire import Incoming, Lost, Unreachable, Wire

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


class TransportFault(Exception):
    """A try that brought nothing. `billed`: the upstream may have done the work."""

    def __init__(self, kind: str, message: str, *, billed: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.billed = billed


@dataclass
class Raw:
    """An upstream's answer before anybody has looked into it."""

    status: int
    headers: Headers
    content: bytes = b""
    chunks: AsyncGenerator[bytes, None] | None = None
    """Of a stream that has begun."""


class NativeTransport:
    """One provider over HTTP."""

    def __init__(self, provider: Provider, connect_s: float, hosted: bool) -> None:
        self._provider = provider
        self._hosted = hosted
        self._paths = {dialect: path for path, dialect in ROUTES.items()}
        self._wire = Wire(provider.url, connect_s)

    def rule(self, call: Call) -> Rule:
        if call.dialect == "chat":
            return "gemini" if "generativelanguage.googleapis.com" in self._provider.url else "openai"
        rules: dict[str, Rule] = {"responses": "responses", "embeddings": "embeddings"}
        return rules.get(call.dialect, "anthropic")

    async def send(self, call: Call, body: Json, headers: Mapping[str, str], timeout_s: float) -> Raw:
        del timeout_s  # whoever asks stops waiting by itself
        content = json.dumps(body, separators=(",", ":")).encode("ascii")
        try:
            incoming = await self._wire.post(self._paths[call.dialect], self._headers(headers), content)
            if incoming.status == 200 and _is_stream(incoming):
                return await self._begun(incoming)
            return Raw(incoming.status, _returned(incoming), await _read(incoming))
        except Unreachable as error:
            raise TransportFault("unreachable", f"the upstream cannot be reached ({error})", billed=False) from None
        except Lost as error:
            raise _lost(error) from None

    async def close(self) -> None:
        await self._wire.close()

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

    async def _begun(self, incoming: Incoming) -> Raw:
        """A stream, after its first piece has come: until then another try is possible."""
        try:
            first = await anext(incoming.body, b"")
        except BaseException:
            await incoming.body.aclose()
            raise
        if not first:
            raise TransportFault("lost", "the upstream's stream is empty", billed=True)
        return Raw(incoming.status, _returned(incoming), chunks=_chunks(first, incoming))


async def _chunks(first: bytes, incoming: Incoming) -> AsyncGenerator[bytes, None]:
    async with aclosing(incoming.body):
        yield first
        size = len(first)
        try:
            async for piece in incoming.body:
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise TransportFault(
                        "invalid", f"the upstream's stream is larger than {MAX_ANSWER_BYTES} bytes", billed=True
                    )
                yield piece
        except Lost as error:
            raise _lost(error) from None


async def _read(incoming: Incoming) -> bytes:
    content = bytearray()
    async with aclosing(incoming.body):
        async for piece in incoming.body:
            content += piece
            if len(content) > MAX_ANSWER_BYTES:
                message = f"the upstream's answer is larger than {MAX_ANSWER_BYTES} bytes"
                raise TransportFault("invalid", message, billed=True)
    return bytes(content)


def _is_stream(incoming: Incoming) -> bool:
    return any(name.lower() == "content-type" and "event-stream" in value for name, value in incoming.headers)


def _returned(incoming: Incoming) -> Headers:
    return [(name, value) for name, value in incoming.headers if name.lower() not in _NOT_RETURNED]


def _lost(error: Exception) -> TransportFault:
    return TransportFault("lost", f"the upstream's answer was lost ({error})", billed=True)
