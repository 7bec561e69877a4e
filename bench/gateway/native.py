"""Speaks to a provider in the client's own protocol. The provider's key leaves this process only through here."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

import httpx

from bench.gateway.config import Provider
from bench.gateway.policy import allowed_betas
from bench.gateway.protocol import ROUTES, Call, Json
from bench.gateway.source import Headers
from bench.gateway.usage import Rule

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
        self._connect_s = connect_s
        self._hosted = hosted
        self._paths = {dialect: path for path, dialect in ROUTES.items()}
        secure = provider.url.startswith("https:")
        limits = httpx.Limits(max_connections=256, max_keepalive_connections=64, keepalive_expiry=30)
        # Without TLS there is nothing to verify, and reading the certificates would cost memory.
        self._client = httpx.AsyncClient(verify=secure, limits=limits, follow_redirects=False)

    def rule(self, call: Call) -> Rule:
        if call.dialect == "chat":
            return "gemini" if "generativelanguage.googleapis.com" in self._provider.url else "openai"
        rules: dict[str, Rule] = {"responses": "responses", "embeddings": "embeddings"}
        return rules.get(call.dialect, "anthropic")

    async def send(self, call: Call, body: Json, headers: Mapping[str, str], timeout_s: float) -> Raw:
        content = json.dumps(body, separators=(",", ":")).encode("ascii")
        timeout = httpx.Timeout(timeout_s, connect=min(self._connect_s, timeout_s))
        url = self._provider.url + self._paths[call.dialect]
        request = self._client.build_request(
            "POST", url, content=content, headers=self._headers(headers), timeout=timeout
        )
        try:
            response = await self._client.send(request, stream=True)
            streams = response.status_code == 200 and "event-stream" in response.headers.get("content-type", "")
            if streams:
                return await self._begun(response)
            try:
                return Raw(response.status_code, _returned(response), await _read(response))
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            message = f"the upstream cannot be reached ({type(error).__name__})"
            raise TransportFault("unreachable", message, billed=False) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _lost(error) from None

    async def close(self) -> None:
        await self._client.aclose()

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

    async def _begun(self, response: httpx.Response) -> Raw:
        """A stream, after its first piece has come: until then another try is possible."""
        pieces = response.aiter_bytes()
        try:
            first = await anext(pieces, b"")
        except BaseException:
            await response.aclose()
            raise
        if not first:
            await response.aclose()
            raise TransportFault("lost", "the upstream's stream is empty", billed=True)
        return Raw(response.status_code, _returned(response), chunks=_chunks(first, pieces, response))


async def _chunks(first: bytes, pieces: AsyncIterator[bytes], response: httpx.Response) -> AsyncGenerator[bytes, None]:
    async with aclosing(response):
        yield first
        try:
            async for piece in pieces:
                yield piece
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise _lost(error) from None


async def _read(response: httpx.Response) -> bytes:
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > MAX_ANSWER_BYTES:
            raise TransportFault(
                "invalid", f"the upstream's answer is larger than {MAX_ANSWER_BYTES} bytes", billed=True
            )
    return bytes(content)


def _returned(response: httpx.Response) -> Headers:
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]
    return [(name, value) for name, value in pairs if name.lower() not in _NOT_RETURNED]


def _lost(error: Exception) -> TransportFault:
    kind = "timeout" if isinstance(error, httpx.TimeoutException) else "lost"
    return TransportFault(kind, f"the upstream's answer was lost ({type(error).__name__})", billed=True)
