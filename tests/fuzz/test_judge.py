"""What an agent leaves or answers is a value or a failed check, never a broken judge."""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.casekit.services import Request, Response, Service
from bench.cell.services import UnixServer
from bench.guest.codec import CodecError, decode, encode, read_frame, write_frame
from bench.judge import values
from bench.judge.files import Folder
from bench.judge.tensor_files import read_safetensors
from bench.judge.values import read_npz
from tests.helpers.arrays import npy, npy_with, npz, tensor, tensors
from tests.helpers.frames import frame, reader
from tests.helpers.fuzz import JUNK, Tally, as_json, assert_clear, damaged, fuzzed, json_bytes

# --- files -----------------------------------------------------------------------------------------------------------

METRICS = {
    "accuracy": 0.93,
    "loss": [1.5, 0.5, 0.25],
    "epochs": 3,
    "model": {"layers": [{"size": 10, "name": "a"}]},
    "ok": True,
}
_TAKES: list[Callable[[Any], object]] = [
    values.number, values.integer, values.string, values.sequence, values.numbers, values.mapping, values.array,
    lambda value: values.array(value, (None, 3)), lambda value: values.mapping(value, ["accuracy"]),
]  # fmt: skip


def take_apart(value: Any) -> None:
    """Every validator takes every part of `value`, or fails a check."""
    pending = [value]
    while pending:
        part = pending.pop()
        if len(pending) < 20:
            pending += part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
        for take in _TAKES:
            try:
                take(part)
            except AssertionError as fault:
                assert_clear(str(fault))


@fuzzed
@given(json_bytes(METRICS))
@example(b"[" * 150 + b"]" * 150)
@example(b"[" * 980 + b"]" * 980)
@example(b'{"a":' * 960 + b"1" + b"}" * 960)
@example(b"1" + b"0" * 4200)
@example(b'"\\ud800"')
@example(b"1e999")
def test_json_and_what_is_in_it(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    value = None
    with tally.example(AssertionError):
        value = Folder(tmp_path).json("x.json")
    json.dumps(value, allow_nan=False)
    take_apart(value)


TABLE = b'id,label,"a ""b"""\r\n1,cat,0.5\r\n2,"x\ny",\r\n'


@fuzzed
@given(damaged(st.just(TABLE)) | damaged(damaged(st.just(TABLE))) | st.binary())
@example(b"a,b\n" + b"," * 100_000)
@example(b'a\n"' + b"x" * 200_000 + b'"\n')
@example(b"a\r1\r")
@example(b"\xef\xbb\xbf\n\n")
def test_a_table(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    rows: list[dict[str, str]] = []
    with tally.example(AssertionError):
        rows = Folder(tmp_path).csv("x.csv")
    assert all(row.keys() == rows[0].keys() for row in rows)


@fuzzed
@given(damaged(st.just("Gr\u00fc\u00dfe\n".encode())) | st.binary())
def test_text(tmp_path: Path, tally: Tally, content: bytes) -> None:
    (tmp_path / "x.txt").write_bytes(content)
    text = ""
    with tally.example(AssertionError):
        text = Folder(tmp_path).text("x.txt")
    assert text.encode("utf-8") == content.removeprefix(b"\xef\xbb\xbf") or tally.refused


_HEADER = "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}\n"
_HEADERS = st.builds(
    _HEADER.format,
    st.sampled_from(
        ["'<f8'", "'|O'", "'<U4'", "[('a', '<f8')]", "('<f8', (2,))", "'>i2'", "'|b1'", "5", "'<f8\\x00'", "'V8'"]
    ),
    st.sampled_from(["False", "True", "5", "None"]),
    st.sampled_from(
        ["(4,)", "()", "(2, 2)", "(-1,)", "(1 << 62,)", f"({10**30},)", "(True,)", "[4]", "(" * 60, "'x'", "(0, 9)"]
    ),
)
_MEMBERS = st.one_of(
    st.sampled_from([npy(numpy.arange(4.0)), npy(numpy.eye(3)), npy(numpy.array([True, False])), b""]),
    st.builds(lambda header: npy_with(header, bytes(32)), _HEADERS),
    damaged(st.just(npy(numpy.arange(4.0)))),
)
_ARCHIVES = st.dictionaries(st.sampled_from(["a", "b", "../c", "\u2028", "x" * 3000]), _MEMBERS, max_size=3).map(
    lambda it: npz(**it)
)


@fuzzed
@given(_ARCHIVES | damaged(_ARCHIVES) | st.binary())
@example(npz(a=npy_with(_HEADER.format("'<f8'", "False", "(0,) * 9"), b"")))
@example(npz(**{"x" * 60_000: b"nothing"}))
def test_an_archive_of_arrays(tally: Tally, content: bytes) -> None:
    arrays: dict[str, Any] = {}
    with tally.example(AssertionError):
        arrays = read_npz(content, 1 << 20)
    assert all(found.dtype.kind in "fiub" for found in arrays.values())
    assert sum(found.nbytes for found in arrays.values()) <= 1 << 20


_TENSORS = {
    "__metadata__": {"format": "pt"},
    "a": tensor("F32", (2,), (0, 8)),
    "b": tensor("BF16", (2, 1), (8, 12)),
    "c": tensor("BOOL", (4,), (12, 16)),
}
_SIZES = st.sampled_from([0, 1, 7, 1 << 31, 1 << 62, (1 << 64) - 1])
_TENSOR_FILES = st.one_of(
    json_bytes(_TENSORS).map(lambda header: tensors(header, bytes(16))),
    st.builds(lambda size, body: struct.pack("<Q", size) + body, _SIZES, st.binary(max_size=30)),
    damaged(st.just(tensors(_TENSORS, bytes(16)))),
)


@fuzzed
@given(_TENSOR_FILES | st.binary())
@example(tensors({"a" * 50_000: {"dtype": "x" * 50_000}}, bytes(4)))
@example(tensors({"\n\x1b": tensor("F32", ("a",))}, bytes(4)))
def test_tensors(tally: Tally, content: bytes) -> None:
    found: dict[str, Any] = {}
    with tally.example(AssertionError):
        found = read_safetensors(content)
    assert all(tensor.dtype.kind in "fiub" for tensor in found.values())


# --- messages of the subject -----------------------------------------------------------------------------------------

_VALUE = {"x": [1, 2.5, "a", None], "nested": {"t": "array", "b": 0}, "bytes": "x"}
_TREES: list[Any] = [
    {"value": encode(_VALUE)[0], "error": None, "sizes": []},
    {"value": {"t": "array", "d": "<f8", "s": [2], "b": 0}, "sizes": [16]},
    {"value": {"t": "list", "v": [{"t": "bytes", "b": 0}, {"t": "float", "v": "nan"}]}, "sizes": [3]},
]
_FRAMES = json_bytes(*_TREES).map(lambda text: frame(text, bytes(20)))


@fuzzed
@given(_FRAMES | damaged(_FRAMES) | st.binary())
@example(frame(as_json({"value": "@@deeper@@", "sizes": []})))
@example(frame(b'{"value": 1, "sizes": [' + b"0," * 2_100_000 + b"0]}"))
@example(frame(b'{"value": ' + b"9" * 5000 + b', "sizes": []}'))
def test_a_message_of_the_subject(tally: Tally, content: bytes) -> None:
    with tally.example(CodecError, EOFError, struct.error):
        try:
            header, parts = read_frame(reader(content))
        except EOFError:
            raise EOFError("cut short") from None
        value = decode(header.get("value"), parts)
        take_apart(value)
        stream = io.BytesIO()
        write_frame(stream, {"value": encode(value)[0]}, encode(value)[1])
        assert read_frame(reader(stream.getvalue()))


@fuzzed
@given(JUNK)
def test_a_claim(tally: Tally, claimed: Any) -> None:
    from bench.judge.scene import Findings
    from bench.judge.workspace import Workspace

    ws = Workspace.__new__(Workspace)
    ws.findings = Findings()
    with tally.example():
        ws.claim("accuracy", claimed, 0.5, 0.01)
        json.dumps(ws.findings.claims, allow_nan=False)


# --- stand-in services -----------------------------------------------------------------------------------------------


class _Server(UnixServer):
    """The real server, whose faults are kept instead of printed."""

    def __init__(self, path: str, service: Service) -> None:
        self.faults: list[str] = []
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        super().__init__(listener, _echo, service)

    def handle_error(self, request: Any, client_address: Any) -> None:
        import sys

        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            self.faults.append(f"{type(error).__name__}: {error}")


def _echo(request: Request, service: Service) -> Response:
    service.journal({"path": request.path, "query": request.query, "size": len(request.body)})
    return Response(200, request.path.encode("utf-8", "replace"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[_Server]:
    service = Service("echo", tmp_path, 1, tmp_path / "echo.jsonl")
    with _Server(str(tmp_path / "s"), service) as made:
        threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
        yield made
        made.shutdown()
    for line in (tmp_path / "echo.jsonl").read_text(encoding="utf-8").splitlines():
        assert "path" in json.loads(line)


_REQUESTS = st.builds(
    lambda verb, path, headers, body: b" ".join([verb, path,
    b"HTTP/1.1"]) + b"\r\n" + b"".join(headers) + b"\r\n" + body,
    st.sampled_from([b"GET", b"POST", b"PUT", b"HEAD", b"TRACE", b"", b"\xff"]),
    st.sampled_from([b"/", b"/a?b=c&d=%ff", b"//[", b"http://[x/", b"/%00%ff", b"*", b"/" + b"a" * 70_000, b"//[::1%",
    b""]),
    st.lists(st.sampled_from([
        b"Content-Length: 5\r\n", b"Content-Length: -5\r\n", b"Content-Length: x\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 99999999999\r\n", b": x\r\n", b"X\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n",
        b"X: \xff\r\n"]), max_size=3),
    st.sampled_from([b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"-5\r\n", b"fffffffff\r\n", b"\xff" * 10]),
)  # fmt: skip


@fuzzed
@given(_REQUESTS | damaged(_REQUESTS) | st.binary())
@example(b"GET //[ HTTP/1.1\r\n\r\n")
@example(b"GET /?" + b"a=b&" * 15_000 + b" HTTP/1.1\r\n\r\n")
def test_a_request_to_a_service(server: _Server, tally: Tally, data: bytes) -> None:
    with tally.example(), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(server.server_address))
        said = b""
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(1 << 16):
                said += part
        except ConnectionError:
            pass
        tally.refused += b" 200 " not in said[:20]
        assert not server.faults, server.faults
