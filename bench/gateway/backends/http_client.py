"""A small HTTP/1.1 client over h11 for one address, because a general one costs twice the time of all the rest.

Measured with tests/benchmarks/gateway_speed.py: httpx added 1.5 to 2 ms a call and its pool slowed with every
connection. Connections are kept and reused; TLS and a CONNECT proxy from the environment are supported.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
import urllib.request
import zlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import h11

_KEPT_S = 15.0
"""Below what servers keep: a connection they close just as it is used looks like a lost answer."""
_MOST_KEPT = 64
_CHUNK = 1 << 16
_LARGEST_PIECE = 1 << 20


class Unreachable(Exception):
    """No connection came about, so nothing was asked."""


class Lost(Exception):
    """The connection ended or spoke no HTTP after the request was sent."""


@dataclass(eq=False)
class _Connection:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 17))
    since: float = 0.0
    """When it became idle."""

    @property
    def fresh(self) -> bool:
        return time.monotonic() - self.since < _KEPT_S and not (self.reader.at_eof() or self.writer.is_closing())

    async def event(self) -> h11.Event:
        while True:
            event = self.http.next_event()
            if event is h11.PAUSED:
                raise h11.RemoteProtocolError("what follows is no HTTP")
            if event is not h11.NEED_DATA:
                assert not isinstance(event, type)
                return event
            self.http.receive_data(await self.reader.read(_CHUNK))

    def cut(self) -> None:
        self.writer.transport.abort()


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
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._base = parts.path.rstrip("/")
        self._authority = parts.netloc.rpartition("@")[2]
        self._connect_s = connect_s
        self._tls = ssl.create_default_context() if self._secure else None
        self._proxy = _proxy(self._host) if self._secure else None
        self._idle: list[_Connection] = []

    async def post(self, path: str, headers: dict[str, str], content: bytes) -> Incoming:
        """Send a request and wait for the head of the answer; raises `Unreachable` or `Lost`."""
        line = self._reuse() or await self._open()
        try:
            fields = {"host": self._authority, **headers, "content-length": str(len(content))}
            # Of a client's own header any byte may be part, as it was when it came.
            raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields.items()]
            head = h11.Request(method="POST", target=self._base + path, headers=raw)
            start = line.http.send(head) or b""
            data = line.http.send(h11.Data(data=content)) or b""
            line.writer.write(start + data + (line.http.send(h11.EndOfMessage()) or b""))
            await line.writer.drain()
            event = await line.event()
            while isinstance(event, h11.InformationalResponse):
                event = await line.event()
        except (OSError, h11.ProtocolError) as error:
            line.cut()
            raise Lost(type(error).__name__) from None
        except BaseException:
            line.cut()
            raise
        if not isinstance(event, h11.Response):
            line.cut()
            raise Lost("no answer")
        given = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers.raw_items()]
        return Incoming(event.status_code, given, self._body(line, _inflater(event)))

    async def close(self) -> None:
        for line in self._idle:
            line.cut()
        self._idle.clear()

    async def _body(self, line: _Connection, inflater: zlib._Decompress | None) -> AsyncGenerator[bytes, None]:
        whole = False
        try:
            while True:
                event = await line.event()
                if isinstance(event, h11.EndOfMessage):
                    break
                if not isinstance(event, h11.Data):
                    raise Lost("cut off")
                if inflater is None:
                    yield bytes(event.data)
                    continue
                # Piece by piece: a small answer can unfold to more than memory holds.
                rest = bytes(event.data)
                while rest:
                    yield inflater.decompress(rest, _LARGEST_PIECE)
                    rest = inflater.unconsumed_tail
            whole = True
        except (OSError, h11.ProtocolError, zlib.error) as error:
            raise Lost(type(error).__name__) from None
        finally:
            self._give_back(line, whole)

    def _reuse(self) -> _Connection | None:
        while self._idle:
            line = self._idle.pop()
            if line.fresh:
                return line
            line.cut()
        return None

    def _give_back(self, line: _Connection, whole: bool) -> None:
        done = line.http.our_state is h11.DONE and line.http.their_state is h11.DONE
        if not (whole and done) or len(self._idle) >= _MOST_KEPT:
            line.cut()
            return
        line.http.start_next_cycle()
        line.since = time.monotonic()
        self._idle.append(line)

    async def _open(self) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_s):
                if self._proxy is not None:
                    return await self._tunnel(*self._proxy)
                reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
                return _Connection(reader, writer)
        except (OSError, TimeoutError) as error:
            raise Unreachable(type(error).__name__) from None

    async def _tunnel(self, host: str, port: int, authorization: str) -> _Connection:
        """A connection through a proxy."""
        reader, writer = await asyncio.open_connection(host, port)
        target = f"{self._host}:{self._port}"
        login = f"Proxy-Authorization: Basic {authorization}\r\n" if authorization else ""
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode("latin-1"))
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.split(b" ", 2)[1:2] == [b"200"]:
                assert self._tls is not None
                await writer.start_tls(self._tls, server_hostname=self._host)
                return _Connection(reader, writer)
        writer.transport.abort()
        raise OSError("the proxy makes no connection")


def _inflater(event: h11.Response) -> zlib._Decompress | None:
    """For servers that compress although they were asked not to."""
    for name, value in event.headers:
        if name == b"content-encoding" and value.lower() in (b"gzip", b"deflate"):
            return zlib.decompressobj(zlib.MAX_WBITS | 32)
    return None


def _proxy(host: str) -> tuple[str, int, str] | None:
    """Host, port and login of the proxy that the environment names for https."""
    address = urllib.request.getproxies().get("https")
    if not address or urllib.request.proxy_bypass(host):
        return None
    import base64

    parts = urlsplit(address if "://" in address else f"http://{address}")
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
    return parts.hostname or "", parts.port or 3128, base64.b64encode(login.encode()).decode() if login else ""
