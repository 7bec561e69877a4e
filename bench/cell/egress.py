"""The only way out of a build: an HTTP proxy of the runner's, on a Unix socket that is forwarded into the sandbox.

It resolves names itself, and connects to the very address that it has checked: to public ones on the ports 80 and 443,
and to the indexes that the owner of this machine has configured, whose passwords it adds.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

_HEAD_BYTES = 32 << 10
_HEAD_S = 30.0
_CONNECT_S = 20.0
_IDLE_S = 120.0
_CHUNK = 1 << 16
_MAX_OPEN = 64
_MAX_CONNECTIONS = 20_000
_MAX_DOWN = 30 << 30
_MAX_UP = 256 << 20
_MAX_NOTED = 200
_PORTS = {"http": 80, "https": 443}
_REQUEST = re.compile(r"([A-Z]{1,16}) (\S{1,8192}) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}):[ \t]*([^\r\n\0]*)")
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,253}|[0-9A-Fa-f:.]{2,45}")
# Of one connection alone, or about it; `host` is written anew.
_HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "host", "expect"}
_REFUSED = [
    ipaddress.ip_network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # A public address at which machines of Azure find their host.
        "168.63.129.16/32",
        # Special purposes, tunnels of IPv4 among them.
        *("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    )
]
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")

Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a host; raises `OSError`."""


@dataclass(frozen=True)
class Origin:
    """What a connection may be for: plain requests (`http`) or a tunnel (`https`) to a host and port."""

    scheme: Literal["http", "https"]
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass
class Egress:
    """A proxy at work, and what it was asked for."""

    socket: Path
    configured: Mapping[Origin, str]
    """Indexes of this machine's owner, at any address, with the value of the header `Authorization` for each."""
    resolve: Resolve
    reached: Counter[str] = field(default_factory=Counter)
    """Connections by `host:port`."""
    refused: Counter[str] = field(default_factory=Counter)
    """Requests that were refused, by `host:port: reason`."""
    open: int = 0
    total: int = 0
    down: int = 0
    up: int = 0
    """Bytes."""


class _RefusedError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def is_public(address: str) -> bool:
    """Whether an IP address is the internet's at large: not of a machine nearby, and not of a service of a cloud."""
    ip = ipaddress.ip_address(address)
    if not ip.is_global or ip.is_multicast or ip.is_reserved or (ip.version == 6 and ip not in _GLOBAL_IPV6):
        return False
    return not any(ip.version == network.version and ip in network for network in _REFUSED)


def is_own(address: str) -> bool:
    """Whether an address is this machine's: packets to it would have it as their sender, too."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Of a datagram socket this sends nothing.
            probe.connect((address, _PORTS["https"]))
        except OSError:
            return False
        return str(probe.getsockname()[0]) == address


def system_resolver(host: str, port: int) -> Sequence[str]:
    """The addresses of a host as this machine knows them, each once."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@contextlib.contextmanager
def open_egress(path: Path, configured: Mapping[Origin, str], resolve: Resolve = system_resolver) -> Iterator[Egress]:
    """Listen on the Unix socket `path` until the end of the block, and close every connection then."""
    egress = Egress(path, configured, resolve)
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(
        asyncio.start_unix_server(lambda *streams: _serve(egress, *streams), path, limit=_HEAD_BYTES)
    )
    thread = threading.Thread(target=loop.run_forever, name="egress", daemon=True)
    thread.start()
    try:
        yield egress
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        # Without waiting for look-ups of names that are still under way.
        loop.close()


async def _close(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _serve(egress: Egress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, one request: what follows it belongs to the tunnel, or is not read."""
    egress.open += 1
    egress.total += 1
    try:
        if egress.open > _MAX_OPEN or egress.total > _MAX_CONNECTIONS:
            raise _RefusedError(503, "too many connections")
        await _answer(egress, reader, writer)
    except _RefusedError as refused:
        with contextlib.suppress(OSError):
            text = f"ml-dev-bench: {refused}\n"
            head = f"HTTP/1.1 {refused.status} {refused}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode("ascii", "replace"))
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
        pass
    finally:
        egress.open -= 1
        writer.close()


async def _answer(egress: Egress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(_HEAD_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, target = _parsed(_REQUEST, request)
    headers = [_parsed(_HEADER, line) for line in lines]
    origin, path = _origin(method, target)
    try:
        upstream = await _connect(egress, origin, method)
    except _RefusedError as refused:
        _note(egress.refused, f"{origin}: {refused}")
        raise
    _note(egress.reached, str(origin))
    try:
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _tunnel(egress, (reader, writer), upstream)
        else:
            upstream[1].write(_forwarded(method, path, headers, origin, egress.configured.get(origin, "")))
            await _copy(egress, upstream[0], writer, up=False)
    finally:
        upstream[1].close()


def _parsed(pattern: re.Pattern[str], line: str) -> tuple[str, str]:
    match = pattern.fullmatch(line)
    if match is None:
        raise _RefusedError(400, "not a request that this proxy understands")
    return match[1], match[2]


def _origin(method: str, target: str) -> tuple[Origin, str]:
    """Where a request is to go, and the path that it asks for there."""
    tunnel = method == "CONNECT"
    try:
        parts = urlsplit(f"//{target}" if tunnel else target)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _RefusedError(400, "not an address") from None
    plain = tunnel and port is not None and not (parts.path or parts.query or parts.fragment)
    if "@" in parts.netloc or not (plain or parts.scheme == "http") or not _HOST.fullmatch(host):
        raise _RefusedError(400, "not an address that this proxy understands")
    host = host.rstrip(".")
    if tunnel:
        return Origin("https", host, port or 0), ""
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    return Origin("http", host, _PORTS["http"] if port is None else port), path


async def _connect(egress: Egress, origin: Origin, method: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to an address of the origin that it may be made to."""
    if method not in ("CONNECT", "GET", "HEAD"):
        # With the passwords that are added here, a build could write to the owner's index.
        raise _RefusedError(405, "plain requests may only read")
    if origin not in egress.configured and origin.port != _PORTS[origin.scheme]:
        raise _RefusedError(403, "only the ports 443 and, without a tunnel, 80 are open")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_S):
            addresses = await loop.run_in_executor(None, egress.resolve, origin.host, origin.port)
    except (OSError, UnicodeError, TimeoutError):
        raise _RefusedError(502, "the name cannot be resolved") from None
    if origin not in egress.configured:
        addresses = [address for address in addresses if is_public(address) and not is_own(address)]
        if not addresses:
            raise _RefusedError(403, "addresses of this machine and of private networks are refused")
    for address in addresses[:4]:
        # By its number: a second look-up might give another answer.
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECT_S):
                return await asyncio.open_connection(address, origin.port)
    raise _RefusedError(502, "no connection")


def _forwarded(method: str, path: str, headers: Sequence[tuple[str, str]], origin: Origin, authorization: str) -> bytes:
    """The request as the server gets it: one, without a body, after which the server closes the connection."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}" + (f":{origin.port}" if origin.port != 80 else "")]
    for name, value in headers:
        known = name.lower()
        if known not in _HOP and not known.startswith("proxy-") and not (authorization and known == "authorization"):
            lines.append(f"{name}: {value}")
    if authorization:
        lines.append(f"Authorization: {authorization}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")


async def _tunnel(
    egress: Egress,
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Copy both ways until either side ends."""
    ways = [
        asyncio.ensure_future(_copy(egress, client[0], server[1], up=True)),
        asyncio.ensure_future(_copy(egress, server[0], client[1], up=False)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        # What the server has sent before its end is still on its way.
        if ways[0].done() and not ways[1].done():
            await asyncio.wait(ways[1:], timeout=_HEAD_S)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copy(egress: Egress, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, up: bool) -> None:
    while egress.down <= _MAX_DOWN and egress.up <= _MAX_UP:
        async with asyncio.timeout(_IDLE_S):
            data = await source.read(_CHUNK)
        if not data:
            break
        if up:
            egress.up += len(data)
        else:
            egress.down += len(data)
        sink.write(data)
        async with asyncio.timeout(_IDLE_S):
            await sink.drain()
    if up and sink.can_write_eof():
        sink.write_eof()


def _note(notes: Counter[str], text: str) -> None:
    """Count it; of many different ones the first are named."""
    notes[text if text in notes or len(notes) < _MAX_NOTED else "others"] += 1
