"""A gateway for fuzzing in this process: socket, handler, ledger, budget as they are, and an upstream of bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
from atif import Trajectory

from bench.gateway.atif import to_atif
from bench.gateway.backends.http_client import NativeTransport
from bench.gateway.backends.live import LiveBackend
from bench.gateway.backends.probe import Probe
from bench.gateway.backends.recorded import Recorder, load_exchanges
from bench.gateway.backends.traffic import LastAnswer, Traffic
from bench.gateway.budget import CellBudget, CellLimits, Tariff
from bench.gateway.call_log import CallLine, Ledger, messages_path, read_trace
from bench.gateway.calls import CallHandler
from bench.gateway.config import Patience, Provider, State
from bench.gateway.http_server import Endpoint
from bench.gateway.names import ModelNames
from bench.gateway.observations import Redactor
from bench.gateway.prices import Prices, Rates
from bench.gateway.process import RunProbeAccount
from bench.gateway.request import Dialect

KEY = "bench-key"
SECRET = "sk-provider-0123456789"
PRICES = Prices(Rates(1e-6, 2e-6, 1e-7, 1e-6, 2e-6), "test")
_DIALECTS: list[Dialect] = ["chat", "responses", "messages", "count_tokens", "embeddings", "generate", "count_generate"]


@dataclass
class Upstream:
    """Answers every request with `answer`, byte for byte, and hangs up."""

    answer: bytes = b""
    requests: int = 0
    _server: asyncio.Server | None = None

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(size[15:]))
            writer.write(self.answer)
            await writer.drain()
        writer.close()


@dataclass(repr=False)
class Rig:
    """One gateway on a socket in `folder`, with everything that went wrong unseen."""

    folder: Path
    record: bool = False
    upstream: Upstream = field(default_factory=Upstream)
    unseen: list[str] = field(default_factory=list)
    """What only the event loop was told: errors that nobody caught."""
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    _count: int = 0
    _read: int = 0

    def __post_init__(self) -> None:
        self.runner.get_loop().set_exception_handler(lambda _, context: self.unseen.append(_told(context)))
        url = self.runner.run(self.upstream.start())
        provider = Provider(url=url, headers={"authorization": f"Bearer {SECRET}"}, dialects=_DIALECTS)
        redactor = Redactor([KEY, SECRET])
        transport = NativeTransport(provider, connect_s=5, hosted=False)
        patience = Patience(tries=1, first_wait_s=0, longest_wait_s=0, answer_s=20, probes=0)
        self._budget = CellBudget(
            {"main": Tariff(model="openai/gpt", prices=PRICES)}, CellLimits(tokens=10**18, deadline=10**9)
        )
        self._trace = self.folder / "calls.jsonl"
        self._ledger = Ledger(self._trace, redactor.known)
        traffic, account = Traffic(), RunProbeAccount("main", Tariff(model="openai/gpt"), None, self._ledger)
        # No probes: they would take the scripted answers that are meant for others.
        probe = Probe(
            "gpt", _DIALECTS, transport, patience, account, traffic, LastAnswer(None), redactor.known
        )  # fmt: skip
        self._backend = LiveBackend("gpt", transport, patience, math.inf, redactor.known, probe, traffic)
        self._cassette = self.folder / "cassette.yaml"
        self._recorders = (
            {"main": Recorder(self._cassette, "openai/gpt", PRICES, redactor.strict)} if self.record else {}
        )
        self._open()

    def _open(self) -> None:
        names = ModelNames({"main": "openai/gpt"}, {})
        self.calls = CallHandler({"main": self._backend}, self._budget, self._ledger, False, self._recorders, names)
        self._socket = self.folder / f"{self._count}.s"
        self._endpoint = Endpoint(self._socket, self.calls, {KEY: ["main"]})
        self.runner.run(self._endpoint.start())

    def renew(self) -> None:
        """Another handler behind another socket, which knows nothing of an earlier fault."""
        self.runner.run(self._endpoint.stop())
        self.unseen.clear()
        self._count += 1
        self._open()

    def ask(self, data: bytes) -> bytes:
        """Everything that the gateway says to these bytes on one connection."""
        return self.runner.run(self._ask(data))

    async def _ask(self, data: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(data)
            with contextlib.suppress(OSError):
                await writer.drain()
                writer.write_eof()
            parts = bytearray()
            with contextlib.suppress(ConnectionError):
                while part := await reader.read(1 << 16):
                    parts += part
            return bytes(parts)
        finally:
            writer.close()
            # Let the other side come to its end within this example.
            while self._endpoint._clients:
                await asyncio.sleep(0)

    def state(self) -> State:
        return State.model_validate_json(self.calls.state().model_dump_json())

    def new_lines(self) -> list[CallLine]:
        """What was added to the ledger since the last look."""
        with self._trace.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        return [CallLine.model_validate_json(line) for line in data.split(b"\n")[:-1]]

    def close(self) -> None:
        """End the cell: its trace and its cassette can be read, and nothing was left under way."""
        self.runner.run(self._endpoint.stop())
        self.runner.run(self.calls.close())
        self.runner.run(self.upstream.stop())
        self.runner.close()
        calls = list(read_trace(self._trace))
        assert all(call.line.status != "abandoned" or call.line.code for call in calls), "a call was left under way"
        Trajectory.model_validate_json(json.dumps(to_atif(calls, "agent", "session")))
        for path in (self._trace, messages_path(self._trace)):
            assert SECRET not in path.read_text(encoding="utf-8")
        if self.record:
            load_exchanges(self._cassette)


def _told(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return f"{context.get('message')}: {type(error).__name__}: {error}"[:500]


def post(route: str, body: bytes, *headers: tuple[bytes, bytes]) -> bytes:
    """A request as its bytes."""
    lines = [
        f"POST /v1{route} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {KEY}\r\n".encode(),
        *(name + b": " + value + b"\r\n" for name, value in headers),
        f"Content-Length: {len(body)}\r\n\r\n".encode(),
    ]
    return b"".join(lines) + body


def responses(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Status, body and wholeness of each answer in what a gateway said."""
    http = h11.Connection(h11.CLIENT)
    http.receive_data(data)
    http.receive_data(b"")
    status, body = 0, b""
    while True:
        if http.our_state is h11.IDLE:
            http.send(h11.Request(method="POST", target="/", headers=[("host", "x"), ("content-length", "0")]))
            http.send(h11.EndOfMessage())
        try:
            event = http.next_event()
        except h11.RemoteProtocolError:
            if status:
                yield status, body, False
            return
        if isinstance(event, h11.Response):
            status, body = event.status_code, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            yield status, body, True
            status = 0
            if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                return
            http.start_next_cycle()
        elif not isinstance(event, h11.InformationalResponse):
            return


def answer(body: bytes, kind: bytes = b"application/json", status: bytes = b"200 OK") -> bytes:
    """An upstream's answer as its bytes; the connection's end is its end."""
    return b"HTTP/1.1 " + status + b"\r\nContent-Type: " + kind + b"\r\nConnection: close\r\n\r\n" + body
