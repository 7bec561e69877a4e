"""An HTTP proxy on loopback: tunnels by CONNECT and forwards plain requests, to whoever shows the right login.

    with ConnectProxy(login="user:secret") as proxy:
        ...  # proxy.url(), proxy.heads

Whatever host is asked for, it connects to the asked port on loopback.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit


class _Server(ThreadingTCPServer):
    daemon_threads = True


@dataclass
class ConnectProxy:
    login: str = ""
    """`name:password`; empty: everybody is served."""
    silent: bool = False
    """Takes connections and never answers."""
    heads: list[bytes] = field(default_factory=list)
    """The first line and headers of each request that arrived."""

    def __enter__(self) -> ConnectProxy:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, login: str = "") -> str:
        return f"http://{login}{'@' if login else ''}127.0.0.1:{self._server.server_address[1]}"

    def serve(self, client: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (piece := client.recv(1 << 16)):
                return
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        self.heads.append(head)
        if self.silent:
            client.recv(1)
            return
        shown = b"Basic " + base64.b64encode(self.login.encode())
        if self.login and shown not in head:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        method, target, _ = head.split(b" ", 2)
        parts = urlsplit(b"//" + target if method == b"CONNECT" else target)
        with socket.create_connection(("127.0.0.1", parts.port or 80)) as upstream:
            if method == b"CONNECT":
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream.sendall(head.replace(target, parts.path, 1) + b"\r\n\r\n" + rest)
            threading.Thread(target=_copy, args=(client, upstream), daemon=True).start()
            _copy(upstream, client)


def _handler(proxy: ConnectProxy) -> type[BaseRequestHandler]:
    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                proxy.serve(self.request)

    return Handler


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
