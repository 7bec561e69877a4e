"""One provider over HTTP, in its own protocol: httpx, told to leave alone what passes through.

Proxies are those of the environment, certificate authorities those of the system (or of SSL_CERT_FILE, SSL_CERT_DIR).
"""

from __future__ import annotations

import json
import ssl
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from bench.base.errors import UserError
from bench.gateway.backends import Headers, Response, TransportFault, lost
from bench.gateway.config import Provider
from bench.gateway.google import upstream_path
from bench.gateway.json_values import Json
from bench.gateway.policy import allowed_betas
from bench.gateway.request import ROUTES, Call
from bench.gateway.usage import Rule, rule_of

_KEPT_S = 15.0
"""Below what servers keep: a connection they close just as it is used looks like a lost answer."""
_MOST_KEPT = 64
_LARGEST_PIECE = 1 << 20
MAX_ANSWER_BYTES = 50_000_000
_FORWARDED = (
    "accept",
    "anthropic-version",
    "anthropic-beta",
    "openai-beta",
    "idempotency-key",
    "user-agent",
    "x-goog-api-client",
)
_NOT_RETURNED = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "content-length", "content-encoding", "set-cookie",
        "openai-organization", "openai-project", "anthropic-organization-id",
    }
)  # fmt: skip
"""Hop-by-hop headers, what says whose account it is, and the length, which the next hop counts itself."""


@dataclass
class Incoming:
    """An answer whose head has come."""

    status: int
    headers: list[tuple[str, str]]
    body: AsyncGenerator[bytes, None]
    """To be exhausted or closed."""


def _authorities(address: httpx.URL) -> ssl.SSLContext:
    if address.scheme == "https":
        return ssl.create_default_context()
    # To read those of the system takes 30 ms of each cell. What knows none trusts nobody.
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class HttpClient:
    """Connections to one address. Belongs to one event loop."""

    def __init__(self, url: str, connect_s: float) -> None:
        self._connect_s = connect_s
        try:
            # httpx would send a login of the address in place of the provider's key.
            address = httpx.URL(url).copy_with(userinfo=b"")
            self._base = str(address).rstrip("/")
            self._client = httpx.AsyncClient(
                verify=_authorities(address),
                cookies=CookieJar(DefaultCookiePolicy(netscape=False)),
                limits=httpx.Limits(max_keepalive_connections=_MOST_KEPT, keepalive_expiry=_KEPT_S),
            )
        except (httpx.InvalidURL, ImportError, ValueError) as error:
            raise UserError(
                f"the provider's address or the environment's proxies cannot be used: {error}",
                remedy="correct OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL, and HTTPS_PROXY,"
                " HTTP_PROXY, ALL_PROXY and NO_PROXY",
            ) from None

    async def post(self, path: str, headers: dict[str, str], content: bytes) -> Incoming:
        """Send a request and wait for the head of the answer; raises `TransportFault`."""
        connecting = dict.fromkeys(("connect", "read", "write"), self._connect_s)

        async def trace(event: str, info: dict[str, Any]) -> None:
            # A proxy's CONNECT is sent by the same event. httpx reads its timeouts anew at every step, so from here on
            # there are none: the caller stops waiting by itself.
            if event == "http11.send_request_headers.started" and info["request"].method == b"POST":
                connecting.clear()

        # Of a client's own header any byte may be part, as it was when it came.
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        facts = {"timeout": connecting, "trace": trace}
        # Not by the client's own method, which adds headers of httpx.
        request = httpx.Request("POST", self._base + path, headers=raw, content=content, extensions=facts)
        try:
            response = await self._client.send(request, stream=True)
        except (httpx.HTTPError, OSError, UnicodeError) as error:
            if connecting:
                message = f"the upstream cannot be reached ({str(error) or type(error).__name__})"
                raise TransportFault("unreachable", message, billed=False) from None
            raise lost(error) from None
        given = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]
        return Incoming(response.status_code, given, _body(response))

    async def close(self) -> None:
        await self._client.aclose()


async def _body(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    # For servers that compress although they were asked not to.
    compressed = response.headers.get("content-encoding", "").lower() in ("gzip", "deflate")
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if compressed else None
    try:
        async for piece in response.aiter_raw():
            if inflater is None:
                yield piece
                continue
            # Piece by piece, which httpx does not: a small answer can unfold to more than memory holds.
            while piece:
                # Of the head alone, which some servers send first, nothing unfolds; no piece of a stream is empty.
                if unfolded := inflater.decompress(piece, _LARGEST_PIECE):
                    yield unfolded
                piece = inflater.unconsumed_tail
    except (httpx.HTTPError, OSError, zlib.error) as error:
        raise lost(error) from None
    finally:
        await response.aclose()


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
        path, headers = self._paths.get(call.dialect, ""), self._headers(call.headers)
        if call.dialect in ("generate", "count_generate"):
            path = upstream_path(str(body["model"]), call.dialect, call.stream)
            body = {name: value for name, value in body.items() if name != "model"}
            headers.pop("anthropic-version")
        content = json.dumps(body, separators=(",", ":")).encode("ascii")
        incoming = await self._client.post(path, headers, content)
        if incoming.status == 200 and _is_stream(incoming, call.stream):
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


def _is_stream(incoming: Incoming, asked: bool) -> bool:
    """Whether events come: small servers name another type than that of events, or none, for a stream."""
    kind = next((value.lower() for name, value in incoming.headers if name.lower() == "content-type"), "")
    return "event-stream" in kind or (asked and not any(it in kind for it in ("json", "html", "xml")))


def _returned(incoming: Incoming) -> Headers:
    return [(name, value) for name, value in incoming.headers if name.lower() not in _NOT_RETURNED]
