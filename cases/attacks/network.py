"""Ways to the network. All aim at listeners that the test has started, or at addresses that it stands in for."""

from __future__ import annotations

import os
import socket
import struct

import facts

_PATIENCE_S = 0.5


def _try(kind: str, family: int, form: int, address: object) -> None:
    """Connect and say hello; an answer or a connection is an escape, a datagram is noticed by its receiver."""
    with socket.socket(family, form) as client:
        client.settimeout(_PATIENCE_S)
        try:
            client.connect(address)  # type: ignore[arg-type]
            client.send(f"{kind} {facts.FACTS['token']}".encode())
        except OSError as error:
            facts.say("refused", detail=f"{kind}: {error}")
            return
        if form == socket.SOCK_STREAM:
            facts.reached(f"{kind}: connected to {address!r}")
            return
        try:
            client.recv(512)
        except OSError as error:
            facts.say("unanswered", detail=f"{kind}: {error}")
            return
        facts.reached(f"{kind}: answered by {address!r}")


def _listener(kind: str) -> object:
    found = facts.FACTS["listeners"].get(kind)
    return tuple(found) if isinstance(found, list) else found


def by_address() -> None:
    """TCP and UDP to loopback, to the machine's own addresses and to one that is nobody's, by number."""
    for kind in ("tcp4", "udp4"):
        form = socket.SOCK_STREAM if kind == "tcp4" else socket.SOCK_DGRAM
        address = _listener(kind)
        if address:
            _try(kind, socket.AF_INET, form, address)
    for host in (*facts.FACTS["addresses"], "192.0.2.1"):
        for form in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            _try(f"host {host}", socket.AF_INET, form, (host, facts.FACTS["port"]))


def by_name() -> None:
    """A name through the system's resolver, and a query of our own to a name server."""
    name = f"{facts.FACTS['token']}.invalid"
    try:
        found = socket.getaddrinfo(name, 80)
        facts.reached(f"{name} is {found[0][4]}")
    except OSError as error:
        facts.say("refused", detail=str(error))
    query = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0)
    query += b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0\0\1\0\1"
    for server in filter(None, [_listener("nameserver"), ("127.0.0.53", 53), ("127.0.0.1", 53)]):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(_PATIENCE_S)
            try:
                client.sendto(query, server)  # type: ignore[arg-type]
                said = client.recv(512)
            except OSError as error:
                facts.say("refused", detail=f"{server}: {error}")
                continue
            if server == ("127.0.0.1", 53) and said[3] & 15 == 3 and said[6:8] == b"\0\0":
                # The sandbox's own stand-in, which knows no name and lists what it is asked for.
                facts.say("refused", detail=f"{server}: no such name")
                continue
            facts.reached(f"the name server {server} answers")


def metadata() -> None:
    """The address at which clouds give out machine credentials."""
    _try("metadata", socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
    for name in ("metadata.google.internal", "instance-data"):
        try:
            socket.getaddrinfo(f"{name}.{facts.FACTS['token']}.invalid", 80)
            facts.reached(f"{name} has an address")
        except OSError:
            continue


def by_ipv6() -> None:
    """IPv6: loopback, link-local and documentation addresses, and IPv4 in disguise."""
    address = _listener("tcp6")
    if address:
        _try("tcp6", socket.AF_INET6, socket.SOCK_STREAM, address)
    for host in ("2001:db8::1", "fe80::1", "ff02::1", "fd00:ec2::254"):
        for form in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            _try(f"ipv6 {host}", socket.AF_INET6, form, (host, facts.FACTS["port"], 0, 0))
    tcp4 = _listener("tcp4")
    if isinstance(tcp4, tuple):
        _try("mapped", socket.AF_INET6, socket.SOCK_STREAM, (f"::ffff:{tcp4[0]}", tcp4[1], 0, 0))


def unix_sockets() -> None:
    """Sockets of the machine without a network: by an abstract name and by a path."""
    for kind in ("abstract", "path"):
        address = _listener(kind)
        if isinstance(address, str):
            _try(kind, socket.AF_UNIX, socket.SOCK_STREAM, address.replace("@", "\0", 1))


def raw() -> None:
    """Raw and packet sockets, netlink, vsock, and a device of its own."""
    for name in ("AF_PACKET", "AF_VSOCK", "AF_NETLINK", "AF_ALG", "AF_BLUETOOTH"):
        family = getattr(socket, name, None)
        if family is None:
            continue
        try:
            with socket.socket(family, socket.SOCK_RAW if name in ("AF_PACKET", "AF_NETLINK") else socket.SOCK_STREAM):
                # Asking the kernel about one's own empty network is nobody's loss.
                if name == "AF_PACKET":
                    facts.reached(f"a socket of {name} can be made")
        except OSError as error:
            facts.say("refused", detail=f"{name}: {error}")
    for number in (socket.IPPROTO_ICMP, socket.IPPROTO_RAW):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, number):
                facts.reached(f"a raw socket of protocol {number} can be made")
        except OSError as error:
            facts.say("refused", detail=f"raw {number}: {error}")
    interfaces = {name for _, name in socket.if_nameindex()} - {"lo"}
    working = [name for name in interfaces if _is_up(name)]
    if working:
        facts.reached(f"there are network devices: {', '.join(sorted(working))}")


def _is_up(name: str) -> bool:
    try:
        with open(f"/sys/class/net/{name}/operstate") as file:
            return file.read().strip() == "up"
    except OSError:
        return os.path.exists(f"/proc/sys/net/ipv4/conf/{name}")
