"""The HTTP client for one provider: httpx, told to leave alone what passes through.

Proxies are those of the environment, certificate authorities those of the system (or of SSL_CERT_FILE, SSL_CERT_DIR).
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from bench.base.errors import UserError
from bench.gateway.backends import TransportFault, lost

_KEPT_S = 15.0
"""Below what servers keep: a connection they close just as it is used looks like a lost answer."""
_MOST_KEPT = 64
_LARGEST_PIECE = 1 << 20


@dataclass
class Incoming:
    """An answer whose head has come."""

    status: int
    headers: list[tuple[str, str]]
    body: AsyncGenerator[bytes, None]
    """To be exhausted or closed."""


class HttpClient:
    """Connections to one address. Belongs to one event loop."""

    def __init__(self, url: str, connect_s: float) -> None:
        self._connect_s = connect_s
        try:
            # httpx would send a login of the address in place of the provider's key.
            self._base = str(httpx.URL(url).copy_with(userinfo=b"")).rstrip("/")
            self._client = httpx.AsyncClient(
                verify=ssl.create_default_context(),
                cookies=CookieJar(DefaultCookiePolicy(netscape=False)),
                limits=httpx.Limits(max_keepalive_connections=_MOST_KEPT, keepalive_expiry=_KEPT_S),
            )
        except (httpx.InvalidURL, ImportError, ValueError) as error:
            raise UserError(
                f"the provider's address or the environment's proxies cannot be used: {error}",
                remedy="correct OPENAI_BASE_URL or ANTHROPIC_BASE_URL, HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY",
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
                yield inflater.decompress(piece, _LARGEST_PIECE)
                piece = inflater.unconsumed_tail
    except (httpx.HTTPError, OSError, zlib.error) as error:
        raise lost(error) from None
    finally:
        await response.aclose()
