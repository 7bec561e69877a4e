"""Each reader of an agent's files takes no more memory than it says, whatever the bytes are: measured in a child."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from tests.helpers.arrays import npy, npy_with, tensor, tensors
from tests.helpers.cells import ROOT, python
from tests.helpers.sampling import every_third

MIB = 1 << 20

_READ = """
import csv, json, numpy, resource, sys, zipfile
from pathlib import Path
from bench.judge.files import Folder
import bench.judge.values as values

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = peak()
folder = Folder(Path(sys.argv[1]))
try:
    found = getattr(folder, sys.argv[2])("file", **json.loads(sys.argv[3]))
    if len(sys.argv) > 4:
        values.array(found.popitem()[1])
    said = "read"
except AssertionError as fault:
    said = "refused: " + str(fault)[:200]
print(json.dumps([said, peak() - before]))
"""


def read(folder: Path, how: str, *also: str, **options: float) -> tuple[str, float]:
    """What a reader said of `file`, and how many MiB it took beside what its process had before."""
    argv = python("-c", _READ, str(folder), how, json.dumps(options), *also)
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-1000:]
    said, taken = json.loads(done.stdout)
    return said, taken


def put(folder: Path, content: bytes) -> float:
    (folder / "file").write_bytes(content)
    return len(content) / MIB


def archive(method: int = zipfile.ZIP_DEFLATED, **members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return stream.getvalue()


_SLACK_MB = 12


@pytest.mark.parametrize("end", [b"", "\U0001f600".encode()], ids=["plain", "odd"])
def test_text(tmp_path: Path, end: bytes) -> None:
    size = put(tmp_path, b"x" * (30 * MIB) + end)
    said, taken = read(tmp_path, "text", max_mb=40)
    assert (said, taken < 6 * size + _SLACK_MB) == ("read", True), taken
    said, taken = read(tmp_path, "sha256", max_mb=40)
    assert (said, taken < _SLACK_MB) == ("read", True), taken


# Made when a test asks: every worker imports this file, and together they are gigabytes.
JSON: dict[str, Callable[[], bytes]] = {
    "objects of one key": lambda: b"[" + b",".join([b'{"":0}'] * 900_000) + b"]",
    "empty objects": lambda: b"[" + b",".join([b"{}"] * 990_000) + b"]",
    "empty lists": lambda: b"[" + b",".join([b"[]"] * 990_000) + b"]",
    "one object": lambda: b"{" + b",".join(b'"%d":1' % n for n in range(1_900_000)) + b"}",
    "floats": lambda: b"[" + b",".join([b"0.12345"] * 1_900_000) + b"]",
    "one odd character": lambda: b'["' + b"x" * (20 * MIB) + "\U0001f600".encode() + b'"]',
}


@pytest.mark.parametrize("name", every_third(JSON))
def test_json(tmp_path: Path, name: str) -> None:
    size = put(tmp_path, JSON[name]())
    said, taken = read(tmp_path, "json", max_mb=64)
    assert (said, taken < 6 * size + 500 + _SLACK_MB) == ("read", True), (said, taken)


def test_json_of_too_many_values_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    size = put(tmp_path, b"[" + b",".join([b"{}"] * 20_000_000) + b"]")
    said, taken = read(tmp_path, "json", max_mb=64)
    assert "more than 2,000,000 values" in said
    assert taken < 6 * size


TABLES: dict[str, Callable[[], bytes]] = {
    "rows of one field": lambda: b"a\n" + b"12\n" * 1_900_000,
    "empty fields": lambda: b"a,b,c,d\n" + b",,,\n" * 490_000,
    "too many fields": lambda: b"a\n" + b"1\n" * 9_000_000,
    "one row": lambda: b"," * 1_900_000,
}


@pytest.mark.parametrize("name", every_third(TABLES))
def test_csv(tmp_path: Path, name: str) -> None:
    size = put(tmp_path, TABLES[name]())
    said, taken = read(tmp_path, "csv")
    assert taken < 10 * size + 700, (said, taken)
    assert (said == "read") == (name in ("rows of one field", "empty fields")), said


def test_npz(tmp_path: Path) -> None:
    content = numpy.random.default_rng(1).integers(0, 255, 60 * MIB, dtype="u1")
    size = put(tmp_path, archive(zipfile.ZIP_STORED, a=npy(content)))
    said, taken = read(tmp_path, "npz")
    assert (said, taken < 2 * size + _SLACK_MB) == ("read", True), taken


NPZ: dict[str, tuple[Callable[[], bytes], str]] = {
    "unpacks to too much": (lambda: archive(a=npy(numpy.zeros(300 * MIB, "u1"))), "unpacks to too much"),
    "lies about its shape": (
        lambda: archive(a=npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (1 << 40,), }\n")),
        "not a readable npz archive",
    ),
    "is a trillion by its header": (
        lambda: archive(
            a=npy_with("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n", bytes(64))
        ),
        "shape and size do not agree",
    ),
    "a long header": (
        lambda: archive(a=b"\x93NUMPY\x02\x00" + struct.pack("<I", 150 * MIB) + bytes(150 * MIB)),
        "too long",
    ),
    "a method that unpacks at once": (
        lambda: archive(zipfile.ZIP_BZIP2, a=npy(numpy.zeros(150 * MIB, "u1"))),
        "deflated",
    ),
}


@pytest.mark.parametrize("name", every_third(NPZ))
def test_archives_that_are_refused_take_nothing(tmp_path: Path, name: str) -> None:
    content, why = NPZ[name]
    put(tmp_path, content())
    said, taken = read(tmp_path, "npz")
    assert why in said
    assert taken < _SLACK_MB, taken


@pytest.mark.parametrize(("kind", "width", "factor"), [("F64", 8, 2), ("I8", 1, 2), ("BOOL", 1, 2), ("BF16", 2, 3)])
def test_safetensors(tmp_path: Path, kind: str, width: int, factor: int) -> None:
    count = 48 * MIB // width
    size = put(tmp_path, tensors({"a": tensor(kind, (count,), (0, 48 * MIB))}, bytes(48 * MIB)))
    said, taken = read(tmp_path, "safetensors")
    assert (said, taken < factor * size + _SLACK_MB) == ("read", True), taken


def test_a_sparse_tensor_of_half_a_gigabyte(tmp_path: Path) -> None:
    """As float64 it would have been eight times as large."""
    size = 487 * MIB
    with (tmp_path / "file").open("wb") as file:
        file.write(tensors({"a": tensor("I8", (size,), (0, size))}))
        file.truncate(file.tell() + size)
    said, taken = read(tmp_path, "safetensors", "as an array")
    assert "at most 67,108,864 numbers are taken" in said
    assert taken < 2 * 487 + _SLACK_MB, taken


@pytest.mark.parametrize("how", every_third(["bytes", "text", "json", "csv", "npz", "safetensors", "sha256"]))
def test_a_file_of_a_terabyte_of_holes_is_refused_unread(tmp_path: Path, how: str) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 40)
    said, taken = read(tmp_path, how)
    assert "is larger than" in said
    assert taken < _SLACK_MB, taken


_TAKE = """
import resource, sys
import bench.judge.values as values
import numpy
VALUES = {
    "one long text": ["x" * (20 << 20)] + ["y"] * 5000,
    "shared arrays": [numpy.zeros(1 << 20)] * 5000,
    "int8": numpy.zeros(1 << 28, "i1"),
    "nested": [[0] * 1000] * 10_000,
}
value = VALUES[sys.argv[1]]
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for take in (values.array, values.numbers, values.number, values.string, values.mapping):
    try:
        take(value)
        print("taken")
    except AssertionError as fault:
        print(len(str(fault)) < 300)
"""


@pytest.mark.parametrize("name", ["one long text", "shared arrays", "int8", "nested"])
def test_values_are_counted_before_they_are_converted(name: str) -> None:
    done = subprocess.run(python("-c", _TAKE, name), cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout.split() == ["True"] * 5
