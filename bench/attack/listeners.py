"""Listeners that no agent may reach, and a network of our own with stand-ins for what must not be disturbed."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

METADATA = "169.254.169.254"
NAME_SERVER = "198.51.100.53"
"""An address that RFC 5737 reserves for documentation, so it belongs to no machine."""
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8916, 0x891C, 0x8913, 0x8914
_IFF_UP = 1
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\nfrom-elsewhere"


def enter_own_network(works: Callable[[], bool]) -> bool:
    """Move this process, which must not have threads yet, into a network of its own; False where that cannot be.

    Loopback is up there, and so are the addresses of the metadata service and of a name server. A process cannot
    return to its old network, so a child tries it first. works: called in the child; whether sandboxes still start.
    """
    child = os.fork()
    if child == 0:
        good = False
        try:
            _enter()
            good = works()
        finally:
            os._exit(0 if good else 1)
    if os.waitpid(child, 0)[1] != 0:
        return False
    _enter()
    return True


def _enter() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    flags = _CLONE_NEWNET if user == 0 else _CLONE_NEWUSER | _CLONE_NEWNET
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace can be made")
    if user != 0:
        # setgroups comes first: the kernel refuses a gid_map of an ordinary user until it is denied.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        _bring_up(handle, b"lo")
        for number, address in enumerate((METADATA, NAME_SERVER), 1):
            alias = f"lo:{number}".encode()
            fcntl.ioctl(handle, _SIOCSIFADDR, _with_address(alias, address))
            fcntl.ioctl(handle, _SIOCSIFNETMASK, _with_address(alias, "255.255.255.255"))


def _bring_up(handle: socket.socket, name: bytes) -> None:
    flags = struct.unpack("16sh", fcntl.ioctl(handle, _SIOCGIFFLAGS, struct.pack("16sh", name, 0))[:18])[1]
    fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sh", name, flags | _IFF_UP))


def _with_address(name: bytes, address: str) -> bytes:
    return struct.pack("16sH2x4s8x", name, socket.AF_INET, socket.inet_aton(address))


class Listeners:
    """Sockets of every kind; each contact is written down. An honest agent never reaches one."""

    def __init__(self, folder: Path, own_network: bool) -> None:
        """`folder`: for the socket with a path; short. `own_network`: the stand-ins can be bound, too."""
        self._lock = threading.Lock()
        self._hits: list[str] = []
        self._open: list[socket.socket] = []
        self.own_network = own_network
        self.addresses: dict[str, Any] = {}
        self._stream("tcp4", socket.AF_INET, ("127.0.0.1", 0))
        with contextlib.suppress(OSError):
            self._stream("tcp6", socket.AF_INET6, ("::1", 0))
        self._datagram("udp4", ("127.0.0.1", 0))
        self._stream("abstract", socket.AF_UNIX, f"\0mldb-{secrets.token_hex(6)}")
        self._stream("path", socket.AF_UNIX, str(folder / "l.sock"))
        if own_network:
            self._stream("metadata", socket.AF_INET, (METADATA, 80))
            self._datagram("nameserver", (NAME_SERVER, 53))
            # The TCP port again, on an address of this machine that is not loopback.
            self._stream("machine", socket.AF_INET, (NAME_SERVER, self.port))

    @property
    def port(self) -> int:
        """Of the listener for TCP."""
        return int(self.addresses["tcp4"][1])

    def hits(self, token: str, since: int = 0) -> list[str]:
        """Contacts since the number `since` that carry `token`, or carry none at all."""
        with self._lock:
            return [hit for hit in self._hits[since:] if token in hit or "mldb-token-" not in hit]

    def count(self) -> int:
        with self._lock:
            return len(self._hits)

    def close(self) -> None:
        for handle in self._open:
            with contextlib.suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)
            handle.close()

    def _note(self, kind: str, data: bytes) -> None:
        with self._lock:
            self._hits.append(f"{kind} was reached: {data[:300]!r}")

    def _bound(self, kind: str, family: int, form: int, address: Any) -> socket.socket:
        handle = socket.socket(family, form)
        if family != socket.AF_UNIX:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        handle.bind(address)
        name = handle.getsockname()
        if isinstance(name, bytes):
            name = name.decode().replace("\0", "@", 1)
        self.addresses[kind] = list(name) if isinstance(name, tuple) else name
        self._open.append(handle)
        return handle

    def _stream(self, kind: str, family: int, address: object) -> None:
        handle = self._bound(kind, family, socket.SOCK_STREAM, address)
        handle.listen(16)

        def serve() -> None:
            while True:
                try:
                    client, _ = handle.accept()
                except OSError:
                    return
                with client, contextlib.suppress(OSError):
                    client.settimeout(0.5)
                    data = b""
                    with contextlib.suppress(TimeoutError):
                        data = client.recv(4096)
                    self._note(kind, data)
                    client.sendall(_ANSWER)

        threading.Thread(target=serve, daemon=True).start()

    def _datagram(self, kind: str, address: tuple[str, int]) -> None:
        handle = self._bound(kind, socket.AF_INET, socket.SOCK_DGRAM, address)

        def serve() -> None:
            while True:
                try:
                    data, sender = handle.recvfrom(4096)
                except OSError:
                    return
                # After shutdown() in close(), recvfrom() returns without a sender.
                if sender is None:
                    return
                self._note(kind, data)
                with contextlib.suppress(OSError):
                    handle.sendto(data, sender)

        threading.Thread(target=serve, daemon=True).start()
