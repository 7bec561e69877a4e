"""The proxy that is a build's only way out: what it lets through, and what it is asked to let through."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bench.base.files import temporary_folder
from bench.cell.egress import Egress, Origin, is_own, is_public, open_egress


class Server:
    """A server on loopback that keeps what it gets and answers the same to everything."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\n\r\nhere") -> None:
        self.got: list[bytes] = []
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                with client:
                    self.got.append(client.recv(65536))
                    client.sendall(self._answer)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with contextlib.closing(Server()) as found:
        yield found


Open = Callable[..., Egress]


@pytest.fixture
def opened() -> Iterator[Open]:
    with contextlib.ExitStack() as stack:

        def start(*configured: Origin, header: str = "", resolve: dict[str, list[str]] | None = None) -> Egress:
            folder = stack.enter_context(temporary_folder("test"))
            found = dict.fromkeys(configured, header)
            if resolve is None:
                return stack.enter_context(open_egress(folder / "proxy", found))
            return stack.enter_context(open_egress(folder / "proxy", found, lambda host, port: resolve[host]))

        yield start


def ask(egress: Egress, request: str | bytes, then: bytes = b"") -> bytes:
    """The whole answer to one request."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(egress.socket))
        found = b""
        with contextlib.suppress(ConnectionError):
            client.sendall(request if isinstance(request, bytes) else f"{request}\r\n\r\n".encode())
        if then:
            found = client.recv(65536)
            client.sendall(then)
        with contextlib.suppress(ConnectionError):
            while piece := client.recv(65536):
                found += piece
        return found


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "168.63.129.16", "198.18.0.1"),
        *("224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "203.0.113.1", "192.88.99.1"),
        *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "fe80::1", "fe80::1%1", "fc00::1"),
        *("fd00:ec2::254", "fec0::1", "ff02::1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001::1"),
        *("100::1", "2001:db8::1", "3fff::1"),
    ],
)
def test_these_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "151.101.0.223", "2606:4700::1111", "2a04:4e42::223"])
def test_these_addresses_are_public(address: str) -> None:
    assert is_public(address)


def test_the_addresses_of_this_machine_are_known() -> None:
    assert is_own("127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return
        assert is_own(probe.getsockname()[0])
    assert not is_own("192.0.2.1")


@pytest.mark.parametrize(
    "request_line",
    [
        *(
            "CONNECT {here}:443",
            "CONNECT {here}:80",
            "CONNECT {here}:{port}",
            "GET http://{here}/",
            "GET http://{here}:{port}/",
        ),
        *("HEAD http://{here}:443/", "CONNECT localhost:443", "GET http://localhost/", "CONNECT 2130706433:443"),
        *(
            "CONNECT 0x7f.1:443",
            "CONNECT 0177.0.0.1:443",
            "CONNECT 127.1:443",
            "CONNECT [::1]:443",
            "GET http://[::1]/",
        ),
        *("CONNECT [::ffff:127.0.0.1]:443", "CONNECT 1.1.1.1:22", "CONNECT 1.1.1.1:80", "GET http://1.1.1.1:443/"),
        *("CONNECT 169.254.169.254:443", "GET http://metadata.google.internal/", "CONNECT 127.0.0.1.:443"),
    ],
)
def test_what_is_refused(opened: Open, server: Server, request_line: str) -> None:
    egress = opened()
    answer = ask(egress, request_line.format(here="127.0.0.1", port=server.port) + " HTTP/1.1")
    assert status(answer) in (403, 502), answer
    assert not server.got and not egress.reached and sum(egress.refused.values()) == 1


@pytest.mark.parametrize("target", ["PUT http://{}/", "POST http://{}/", "DELETE http://{}/x", "PATCH http://{}/"])
def test_plain_requests_only_read(opened: Open, server: Server, target: str) -> None:
    origin = Origin("http", "127.0.0.1", server.port)
    assert status(ask(opened(origin), f"{target.format(origin)} HTTP/1.1")) == 405
    assert not server.got


def test_a_configured_index_is_reached_and_nothing_beside_it(opened: Open, server: Server) -> None:
    origin = Origin("http", "127.0.0.1", server.port)
    egress = opened(origin, header="Basic c2VjcmV0")
    head = "GET http://127.0.0.1:{}/simple/?a=b#c HTTP/1.1\r\nHost: other.example\r\nAuthorization: mine\r\nX-A: 1\r\n"
    head += "Proxy-Authorization: x\r\nConnection: keep-alive, X-A\r\nTransfer-Encoding: chunked\r\nContent-Length: 5"
    assert ask(egress, head.format(server.port)).endswith(b"\r\n\r\nhere")
    (got,) = server.got
    assert got.split(b"\r\n") == [
        b"GET /simple/?a=b HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}".encode(),
        b"X-A: 1",
        b"Authorization: Basic c2VjcmV0",
        b"Connection: close",
        b"",
        b"",
    ]
    # A tunnel would let a build write to it, and say what it likes.
    assert status(ask(egress, f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")) == 403
    assert status(ask(egress, f"GET http://127.0.0.1:{server.port + 1}/ HTTP/1.1")) == 403
    assert len(server.got) == 1 and egress.reached == {str(origin): 1}


def test_what_follows_a_request_is_not_another_one(opened: Open, server: Server) -> None:
    origin = Origin("http", "127.0.0.1", server.port)
    egress = opened(origin)
    first = f"GET http://{origin}/a HTTP/1.1\r\n\r\n"
    ask(egress, f"{first}POST /admin HTTP/1.1\r\nHost: x".encode() + b"\r\n\r\n")
    assert [got.split(b"\r\n")[0] for got in server.got] == [b"GET /a HTTP/1.1"]


def test_a_tunnel_to_a_configured_index(opened: Open, server: Server) -> None:
    egress = opened(Origin("https", "index.internal", server.port), resolve={"index.internal": ["127.0.0.1"]})
    answer = ask(egress, f"CONNECT index.internal:{server.port} HTTP/1.1", then=b"hello")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhere"
    assert server.got == [b"hello"]
    assert egress.up == 5 and egress.down == len(b"HTTP/1.1 200 OK\r\n\r\nhere")


def test_an_answer_of_names_is_believed_once(opened: Open, server: Server) -> None:
    """A server of names that says something else the second time gains nothing: the checked number is connected to."""
    answers = [["192.0.2.7"], ["127.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["127.0.0.1", "::1"]]
    asked: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    with temporary_folder("test") as folder, open_egress(folder / "proxy", {}, resolve) as egress:
        for _ in answers:
            assert status(ask(egress, "GET http://rebind.example/ HTTP/1.1")) == 403
    assert len(asked) == len(answers) and not server.got


@pytest.mark.parametrize(
    "head",
    [
        *(b"GET / HTTP/1.1", b"GET https://x.example/ HTTP/1.1", b"GET ftp://x.example/ HTTP/1.1", b"nonsense", b""),
        *(b"GET http://user:pw@x.example/ HTTP/1.1", b"CONNECT x.example HTTP/1.1"),
        *(b"CONNECT x.example:443/a HTTP/1.1", b"CONNECT :443 HTTP/1.1"),
        *(b"GET http://x.example:99999/ HTTP/1.1", b"CONNECT x.example:x HTTP/1.1", b"GET http:///x HTTP/1.1"),
        *(b"GET http://x.example/ HTTP/2", b"GET http://x.example/ HTTP/1.1\r\nno header", b"GET http://x y/ HTTP/1.1"),
        *(b"GET http://x.example/ HTTP/1.1\r\nA: b\nC: d", b"GET http://x.example/ HTTP/1.1\r\n folded: x"),
        *(b"CONNECT fe80::1%1:443 HTTP/1.1", b"GET http://[x/ HTTP/1.1", b"GET http://x.example/\0 HTTP/1.1\r\nA: \0"),
    ],
)
def test_what_is_not_a_request(opened: Open, head: bytes) -> None:
    egress = opened(resolve={"x.example": ["127.0.0.1"]})
    assert status(ask(egress, head + b"\r\n\r\n")) in (400, 403), head
    assert not egress.reached


def test_a_head_without_an_end_is_dropped(opened: Open) -> None:
    assert ask(opened(), b"GET http://x.example/ HTTP/1.1\r\nA: " + b"a" * (1 << 20)) == b""


def test_it_closes_with_what_is_open(server: Server) -> None:
    with temporary_folder("test") as folder:
        with open_egress(folder / "proxy", {Origin("https", "127.0.0.1", server.port): ""}) as egress:
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(egress.socket))
            client.sendall(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n\r\n".encode())
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
            idle = socket.socket(socket.AF_UNIX)
            idle.connect(str(egress.socket))
        for end in (client, idle):
            end.settimeout(30)
            assert end.recv(1000) == b""
            end.close()


def test_many_at_once_are_bounded(opened: Open, server: Server, tmp_path: Path) -> None:
    egress = opened()
    idle = [socket.socket(socket.AF_UNIX) for _ in range(64)]
    for end in idle:
        end.connect(str(egress.socket))
    assert status(ask(egress, f"CONNECT 127.0.0.1:{server.port} HTTP/1.1")) == 503
    for end in idle:
        end.close()


def test_the_list_holds_what_the_library_of_some_versions_calls_global() -> None:
    """Other versions of Python know fewer special networks."""
    assert not is_public(str(ipaddress.ip_address("192.0.0.192")))
