"""Small inputs that would unfold without end: read or refused by a process with little memory, in short time."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.sandbox.job import Sandbox
from tests.helpers.arrays import tensors
from tests.helpers.cells import judge, make_case, write_files
from tests.helpers.fuzz import in_a_small_machine
from tests.helpers.sampling import every_third

_SETTINGS = """
import sys
from pathlib import Path
from bench.base.errors import UserError
from bench.formats.case import CaseSpec
from bench.base.model import read_yaml
from bench.gateway.backends.replay import load_cassette
from bench.gateway.backends.recorded import load_exchanges
from bench.gateway.backends.replay import is_recorded
path = Path(sys.argv[1])
is_recorded(path)
for read in (lambda: read_yaml(path, CaseSpec), lambda: load_cassette(path), lambda: load_exchanges(path)):
    try:
        read()
        print("read")
    except UserError as error:
        print(len(str(error)) < 2000 and str(error))
"""


def laughs(levels: int, merge: bool = False) -> str:
    """Each level is ten times the one before."""
    lines = ["a0: &a0 {x: 1}" if merge else "a0: &a0 [x]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {{<<: [{aliases}]}}" if merge else f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


_CASSETTE = "schema: 1\nmodel: m\nprices: {input: 1, output: 1, cache_read: 1}\ntask_sha256: " + "0" * 64 + "\n"
SETTINGS = {
    "aliases": laughs(9),
    "merges": laughs(9, merge=True),
    "aliases_in_a_turn": f"{laughs(9)}\n{_CASSETTE}turns: [{{usage: {{input: 1, output: 1}}, tool_calls: [{{name: x, "
    "arguments: {x: *a8}}]}]",
    "aliases_in_an_exchange": "schema: 2\nmodel: m\n---\nprotocol: chat\nframe: {a: &a0 [x], b: &b0 [*a0, *a0]}\nnew: "
    + "["  + ", ".join(["*b0"] * 20_000) + "]",
    "inside_itself": "a: &a [*a]\nb: &b {x: *b}\n",
    "base_sixty": "a: " + ":".join(["1"] * 400_000),
    "base_sixty_tagged": "a: !!int '" + ":".join(["1"] * 400_000) + "'",
    "hexadecimal": "a: 0x" + "f" * 900_000,
    "ten_megabytes": "a: " + "x" * 10_000_000,
    "brackets": "[" * 900_000,
    "keys": "? " * 450_000,
    "dashes": "- " * 450_000,
    "anchors": "\n".join(f"k{number}: &k{number} x" for number in range(20_000)),
    "unknown_keys": "\n".join(f"k{number}: 1" for number in range(30_000)),
    "one_key_of_a_megabyte": "k" * 990_000 + ": 1",
    "wrong_items": "tags: [" + "1," * 100_000 + "1]",
    "documents": "--- a\n" * 50_000,
}  # fmt: skip


@pytest.mark.parametrize("name", every_third(sorted(SETTINGS)))
def test_settings_and_cassettes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(SETTINGS[name])
    said = in_a_small_machine(_SETTINGS, str(path)).splitlines()
    assert len(said) == 3
    assert all(str(path) in line for line in said), said
    if name.startswith(("aliases", "merges", "inside", "anchors")):
        assert "has an anchor or an alias" in said[0]


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "loop"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bomb.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    said = in_a_small_machine(_SETTINGS, str(path)).splitlines()
    assert [line.partition(": ")[0] for line in said] == [str(path)] * 3
    assert all("cannot be read" in line for line in said)


_FILES = """
import sys
from pathlib import Path
from bench.judge.files import Folder
folder = Folder(Path(sys.argv[1]))
try:
    found = getattr(folder, sys.argv[2])("bomb")
    print("read")
except AssertionError as fault:
    print("refused:", str(fault)[:200])
"""


def members(count: int) -> bytes:
    """An archive of empty members, whose directory alone counts."""
    entry = b"PK\x01\x02" + bytes(24) + struct.pack("<HHH", 4, 0, 0) + bytes(12) + b"a.np"
    directory = entry * count
    end = b"PK\x05\x06" + bytes(4) + struct.pack("<HHIIH", 0xFFFF, 0xFFFF, len(directory), 0, 0)
    return directory + end


def unfolding(method: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive, archive.open("a.npy", "w", force_zip64=True) as file:
        for _ in range(400):
            file.write(bytes(1 << 20))
    return stream.getvalue()


# Made when a test asks: every worker imports this file.
BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a_million_members": ("npz", lambda: members(1_000_000)),
    "deflated_zeros": ("npz", lambda: unfolding(zipfile.ZIP_DEFLATED)),
    "lzma_zeros": ("npz", lambda: unfolding(zipfile.ZIP_LZMA)),
    "tensors_in_a_header": (
        "safetensors",
        lambda: tensors(b"{" + b",".join(b'"%d":{}' % n for n in range(700_000)) + b"}"),
    ),
    "a_header_that_is_longer": ("safetensors", lambda: struct.pack("<Q", 1 << 62) + bytes(100)),
    "empty_fields": ("csv", lambda: b"," * (19 << 20)),
    "short_rows": ("csv", lambda: b"a\n" + b"1\n" * (9 << 20)),
    "empty_lists": ("json", lambda: b"[" + b"[]," * 1_700_000 + b"[]]"),
    "digits": ("json", lambda: b"9" * 5_000_000),
    "brackets": ("json", lambda: b"[" * 5_000_000),
    "exponents": ("json", lambda: b"[" + b"1e99999," * 500_000 + b"1]"),
}


@pytest.mark.parametrize("name", every_third(sorted(BOMBS)))
def test_files_of_an_agent(tmp_path: Path, name: str) -> None:
    kind, content = BOMBS[name]
    (tmp_path / "bomb").write_bytes(content())
    said = in_a_small_machine(_FILES, str(tmp_path), kind, memory_mb=2048)
    assert said.startswith("refused:") or name == "empty_lists", said


_READS = '''
from bench.judge import array, check, mapping


@check(required=True)
def reads(ws):
    """Reads the answer as it is asked to."""
    found = getattr(ws, ws.text("kind"))("bomb")
    assert isinstance(found, (list, dict)), "neither rows nor arrays"
    for value in found.values() if isinstance(found, dict) else ():
        array(value)
    assert len(found) > 10**9, f"too few: {str(found)[:50]}"


@check()
def another(ws):
    """Is judged whatever comes before it."""
'''


def holes() -> bytes:
    """Of a sparse tensor; the rest of it is what the test appends."""
    size = 487 << 20
    return tensors({"a": {"dtype": "I8", "shape": [size], "data_offsets": [0, size]}})


@pytest.mark.parametrize("name", every_third(["holes", *sorted(BOMBS)]))
def test_files_of_an_agent_in_a_judge(plain: Sandbox, tmp_path: Path, name: str) -> None:
    """Each ends in a grading, with a verdict of every check, and of the time that is allowed little is used."""
    kind, make = BOMBS.get(name, ("safetensors", holes))
    content = make()
    case = make_case(tmp_path / "cases", {"check.py": _READS}, outputs={"files": []}, limits={"grade_s": 30})
    snapshot = write_files(tmp_path / "snapshot", {"kind": kind, "bomb": content})
    if name == "holes":
        os.truncate(snapshot / "bomb", len(content) + (487 << 20))
    grading = judge(case, tmp_path, {}, plain, snapshot=snapshot)
    assert [(it.id, it.value) for it in grading.verdicts] == [("reads", 0), ("another", 1)]
    assert (grading.broken, grading.raised) == ("", {})
    assert "judging was ended" not in grading.verdicts[0].message


_UPSTREAM = """
import asyncio, sys
from pathlib import Path
from bench.gateway.config import Provider
from bench.gateway.backends.http_client import NativeTransport
from bench.gateway.backends import TransportFault
from bench.gateway.request import read_call
from bench.gateway.streams import Events, StreamLost

said = Path(sys.argv[1]).read_bytes()

async def serve(reader, writer):
    await reader.readuntil(b"}")
    writer.write(said)
    try:
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = NativeTransport(Provider(url=url, headers={}, dialects=["chat"]), 5, hosted=False)
    call = read_call("chat", b'{"model": "m", "messages": [{}]}', {})
    try:
        raw = await transport.send(call, call.data, 60)
        events = Events()
        async for chunk in raw.chunks:
            for event in events.feed(chunk):
                pass
    except (TransportFault, StreamLost) as fault:
        print("refused:", fault)

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("filling", [b"\0", b"data: {}\n\n"])
def test_a_compressed_answer(tmp_path: Path, kind: str, filling: bytes) -> None:
    body = gzip.compress(filling * (100_000_000 // len(filling)), 1)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    (tmp_path / "answer").write_bytes(head.encode() + body)
    assert in_a_small_machine(_UPSTREAM, str(tmp_path / "answer")).startswith("refused:")


def test_a_large_event_in_small_pieces() -> None:
    """What is held of an event is not searched again with every piece."""
    code = """
from bench.gateway.streams import Events
events = Events()
assert not [event for _ in range(1_000_000) for event in events.feed(b"12345")]
assert [len(event) for event in events.feed(b"\\r\\n\\r\\n")] == [5_000_004]
"""
    in_a_small_machine(code)


_RECORDS = """
import sys
from pathlib import Path
from bench.base.errors import UserError
from bench.formats.run_folder import RunFolder, read_record
path = Path(sys.argv[1])
for read in (lambda: read_record(path / "run.json"), lambda: RunFolder(path).read_plan()):
    try:
        read()
    except UserError as error:
        print(len(str(error)) < 2000)
"""


@pytest.mark.parametrize("field", ["cells", "checks"])
def test_records_and_plans_with_many_faults(tmp_path: Path, field: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps({field: [{}] * 30_000}))
    assert in_a_small_machine(_RECORDS, str(tmp_path), memory_mb=2048).splitlines() == ["True", "True"]


def test_a_message_of_the_subject_that_is_all_brackets() -> None:
    """What it would become is counted before it is parsed."""
    code = """
import struct
from bench.guest.codec import CodecError, MAX_TEXT, decode, read_frame
text = b'{"sizes": [], "value": [' + b"[]," * 5_000_000 + b"[]]}"
parts = iter([struct.pack("<Q", len(text)), text])
try:
    decode(read_frame(lambda count: next(parts))[0]["value"], [])
except CodecError as error:
    print(error)
"""
    assert in_a_small_machine(code, memory_mb=2048) == "message of too many values\n"
