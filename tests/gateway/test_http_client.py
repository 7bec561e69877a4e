"""The client for one provider against servers that look at bytes: what it sends, what it keeps, what it lets go."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bench.gateway.backends import TransportFault, http_client
from bench.gateway.backends.http_client import HttpClient, Incoming, NativeTransport
from bench.gateway.config import Provider
from bench.gateway.request import read_call

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SENT = {"content-type": "application/json", "accept-encoding": "identity"}


@dataclass
class Server:
    """Answers each request by the next of `answers`, the last one for ever; None: it says nothing."""

    answers: list[bytes | None]
    close_after: bool = False
    pause_s: float = 0.0
    """Before an answer, and before the second half of it."""
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Some client has hung up."""
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(size[15:]))
                self.heads.append(head)
                answer = (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]) or b""
                for part in (answer[: len(answer) // 2], answer[len(answer) // 2 :]):
                    await asyncio.sleep(self.pause_s)
                    writer.write(part)
                if self.close_after:
                    writer.close()
                    return
        self.ended.set()
        writer.close()


@asynccontextmanager
async def serving(*answers: bytes | None, close_after: bool = False) -> AsyncIterator[tuple[Server, HttpClient]]:
    server = Server(list(answers), close_after)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    client = HttpClient(server.url, 5.0)
    try:
        yield server, client
    finally:
        await client.close()
        listening.close()


async def read(incoming: Incoming) -> bytes:
    return b"".join([piece async for piece in incoming.body])


async def ask(client: HttpClient) -> bytes:
    return await read(await client.post("/x", SENT, b"{}"))


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(bounded())


def fields_of(head: bytes) -> list[tuple[bytes, bytes]]:
    lines = head.rstrip().split(b"\r\n")[1:]
    return sorted((name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines))


def test_nothing_is_sent_that_neither_the_client_nor_the_gateway_said() -> None:
    async def test() -> None:
        async with serving(OK) as (server, client):
            await client.post("/chat/completions", {**SENT, "user-agent": "caf\u00e9/1"}, b"{}")
            start, host = server.heads[0].split(b"\r\n")[0], server.url.split("/")[2].encode()
        assert start == b"POST /v1/chat/completions HTTP/1.1"
        assert fields_of(server.heads[0]) == [
            (b"accept-encoding", b"identity"), (b"content-length", b"2"), (b"content-type", b"application/json"),
            (b"host", host), (b"user-agent", b"caf\xe9/1"),
        ]  # fmt: skip

    run(test)


def test_what_a_provider_is_sent_for_a_bare_call() -> None:
    async def test() -> None:
        said = b'{"choices": []}'
        async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said)) as (server, _):
            provider = Provider(url=server.url, headers={"authorization": "Bearer k"}, dialects=["chat"])
            transport = NativeTransport(provider, 5.0, hosted=False)
            call = read_call("chat", json.dumps({"model": "m", "messages": [{}]}).encode(), {})
            assert (await transport.send(call, call.data, 5.0)).content == said
            await transport.close()
        names = [name for name, _ in fields_of(server.heads[0])]
        expected = "accept-encoding anthropic-version authorization content-length content-type host"
        assert names == expected.encode().split()

    run(test)


def test_a_login_in_the_address_does_not_take_the_place_of_the_key() -> None:
    async def test() -> None:
        async with serving(OK) as (server, _):
            client = HttpClient(server.url.replace("//", "//user:password@"), 5.0)
            await read(await client.post("/x", {"authorization": "Bearer key"}, b""))
            await client.close()
        assert dict(fields_of(server.heads[0]))[b"authorization"] == b"Bearer key"
        assert b"user" not in server.heads[0]

    run(test)


def test_headers_of_an_answer_keep_case_order_bytes_and_repetition() -> None:
    async def test() -> None:
        answer = b"HTTP/1.1 200 OK\r\nX-B: 1\r\nx-a: \xe9\xff\r\nX-b: 2\r\nContent-Length: 0\r\n\r\n"
        async with serving(answer) as (_, client):
            incoming = await client.post("/x", SENT, b"{}")
        assert incoming.headers == [("X-B", "1"), ("x-a", "\u00e9\u00ff"), ("X-b", "2"), ("Content-Length", "0")]

    run(test)


@pytest.mark.parametrize("coding", ["br", "zstd", "identity", "gzip, br"])
def test_a_body_is_passed_on_byte_for_byte(coding: str) -> None:
    async def test() -> None:
        body = bytes(range(256)) * 40
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        async with serving(head + body) as (_, client):
            assert await ask(client) == body

    run(test)


def test_what_is_compressed_all_the_same_is_unfolded_in_bounded_pieces() -> None:
    async def test() -> None:
        body = gzip.compress(b"x" * 20_000_000)
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: GZIP\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        async with serving(head + body) as (_, client):
            sizes = [len(piece) async for piece in (await client.post("/x", SENT, b"{}")).body]
        assert sum(sizes) == 20_000_000
        assert max(sizes) <= 1 << 20

    run(test)


def test_a_piece_in_which_nothing_unfolds_is_no_end() -> None:
    async def test() -> None:
        # A head that is larger than what is read at once, because it names a file.
        folded = gzip.compress(b"hello", mtime=0)
        body = folded[:3] + b"\x08" + folded[4:10] + b"n" * 300_000 + b"\0" + folded[10:]
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        async with serving(head + body) as (_, client):
            assert [piece async for piece in (await client.post("/x", SENT, b"{}")).body] == [b"hello"]

    run(test)


def test_no_cookie_is_kept_and_no_redirect_followed() -> None:
    async def test() -> None:
        away = b"HTTP/1.1 307 x\r\nLocation: /elsewhere\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
        async with serving(away, OK) as (server, client):
            first = await client.post("/x", SENT, b"{}")
            assert (first.status, await read(first), await ask(client)) == (307, b"", b"ok")
        assert [head.split(b" ")[1] for head in server.heads] == [b"/v1/x", b"/v1/x"]
        assert fields_of(server.heads[0]) == fields_of(server.heads[1])

    run(test)


def test_a_connection_is_used_again_but_not_when_it_has_been_idle_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        assert http_client._KEPT_S == 15.0
        monkeypatch.setattr(http_client, "_KEPT_S", 0.5)
        async with serving(OK) as (server, client):
            for _ in range(3):
                assert await ask(client) == b"ok"
            assert server.connections == 1
            await asyncio.sleep(0.8)
            assert await ask(client) == b"ok"
            assert server.connections == 2

    run(test)


def test_a_connection_that_the_server_has_closed_is_not_used_again() -> None:
    async def test() -> None:
        async with serving(OK, close_after=True) as (server, client):
            for _ in range(20):
                assert await ask(client) == b"ok"
                await asyncio.sleep(0.01)
            assert server.connections == 20

    run(test)


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 101 x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"],
)
def test_an_answer_that_breaks_off_is_lost(answer: bytes) -> None:
    async def test() -> None:
        async with serving(answer, close_after=True) as (server, client):
            with pytest.raises(TransportFault, match="was lost"):
                await ask(client)
            assert len(server.heads) == 1

    run(test)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "nowhere.invalid", "a..b", f"{'a' * 64}.test"])
def test_an_address_where_nothing_answers_is_unreachable(host: str) -> None:
    async def test() -> None:
        with pytest.raises(TransportFault, match="cannot be reached"):
            await HttpClient(f"http://{host}", 5.0).post("/x", SENT, b"{}")

    run(test)


def test_an_answer_may_take_longer_than_a_connection_may() -> None:
    async def test() -> None:
        async with serving(OK) as (server, _):
            server.pause_s = 0.6
            assert await ask(HttpClient(server.url, 0.2)) == b"ok"

    run(test)


def test_a_handshake_that_does_not_come_about_is_given_up_as_a_connection() -> None:
    async def test() -> None:
        async with serving(None) as (server, _):
            with pytest.raises(TransportFault, match="cannot be reached"):
                await ask(HttpClient(server.url.replace("http:", "https:"), 0.3))
            await server.ended.wait()

    run(test)


@pytest.mark.parametrize("begun", [None, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"])
def test_a_call_that_is_given_up_closes_its_connection(begun: bytes | None) -> None:
    async def test() -> None:
        async with serving(begun) as (server, client):
            task = asyncio.create_task(ask(client))
            while not server.heads:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            task.cancel()
            await server.ended.wait()
            assert task.cancelled()

    run(test)


def test_a_body_that_is_not_read_to_its_end_closes_its_connection() -> None:
    async def test() -> None:
        async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok") as (server, client):
            incoming = await client.post("/x", SENT, b"{}")
            assert await anext(incoming.body) == b"ok"
            await incoming.body.aclose()
            await server.ended.wait()

    run(test)


def test_many_at_once_do_not_wait_for_each_other() -> None:
    async def test() -> None:
        async with serving(None) as (server, client):
            tasks = [asyncio.create_task(ask(client)) for _ in range(150)]
            while len(server.heads) < 150:
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(test)
