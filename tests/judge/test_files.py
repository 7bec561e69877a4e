"""Reading what an agent left: every fault of it is a failed check, whatever the bytes, links and devices are."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.judge.files import Folder
from bench.judge.tensor_files import read_safetensors
from bench.judge.values import read_npz

# --- places ----------------------------------------------------------------------------------------------------------
from tests.helpers.arrays import npy, npy_with, npz, tensor, tensors
from tests.helpers.cells import write_files


def _link(root: Path) -> str:
    (root / "thing").symlink_to("/etc/hostname")
    return "thing"


def _linked_folder(root: Path) -> str:
    (root / "thing").symlink_to("/etc")
    return "thing/hostname"


def _inner_link(root: Path) -> str:
    (root / "thing").symlink_to("real.txt")
    return "thing"


def _fifo(root: Path) -> str:
    os.mkfifo(root / "thing")
    return "thing"


def _socket(root: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(root / "thing"))
    return "thing"


def _folder(root: Path) -> str:
    (root / "thing").mkdir()
    return "thing"


def _below_a_file(root: Path) -> str:
    return "real.txt/x"


@pytest.mark.parametrize("make", [_link, _linked_folder, _inner_link, _fifo, _socket, _folder, _below_a_file])
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], str]) -> None:
    write_files(tmp_path, {"real.txt": "x"})
    folder, name = Folder(tmp_path), make(tmp_path)
    assert not folder.exists(name)
    for read in (folder.path, folder.text, folder.json, folder.csv, folder.npz, folder.safetensors, folder.sha256):
        with pytest.raises(AssertionError, match=r"not a regular file|is missing"):
            read(name)
    assert folder.files() == ["real.txt"]


@pytest.mark.parametrize("name", ["", "/etc/hostname", "../x", "a/../../x", "a\0b", "x" * 300, "absent", "a/" * 3000])
def test_a_path_that_leads_nowhere_is_a_failed_check(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path)
    assert not folder.exists(name)
    with pytest.raises(AssertionError):
        folder.text(name)


def test_files_are_found_by_pattern(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.py": "", "b/c.py": "", "b/d.txt": "", "b/__pycache__/c.pyc": ""})
    folder = Folder(tmp_path)
    assert folder.files() == ["a.py", "b/c.py", "b/d.txt"]
    assert folder.files("*.py") == ["a.py"]
    assert folder.files("b/*") == ["b/c.py", "b/d.txt"]


def test_files_larger_than_asked_for_are_refused(tmp_path: Path) -> None:
    folder = Folder(write_files(tmp_path, {"x": b"x" * (1 << 20)}))
    assert len(folder.bytes("x", max_mb=1)) == 1 << 20
    for read in (folder.bytes, folder.text, folder.json, folder.csv, folder.sha256):
        with pytest.raises(AssertionError, match="larger than"):
            read("x", 0.5)


# --- text, JSON, tables ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"a\x00\xff"])
def test_text_must_be_utf8(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(AssertionError, match="not UTF-8"):
        Folder(write_files(tmp_path, {"x": content})).text("x")


@pytest.mark.parametrize(
    "head",
    [
        b"# coding: raw_unicode_escape\n",
        b"#!/usr/bin/python\n# vim: set fileencoding=unicode_escape :\n",
        b"\r# coding: raw_unicode_escape\n",
        b"\x0c # coding=raw-unicode-escape\r\n",
    ],
)
def test_a_program_is_the_text_that_python_reads(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "a.py").write_bytes(head + b"#\\u000afound = 1\n")
    names: dict[str, Any] = {}
    exec(compile((tmp_path / "a.py").read_bytes(), "a.py", "exec"), names)
    assert names["found"] == 1, "the attack itself works"
    with pytest.raises(AssertionError, match="another text to Python"):
        Folder(tmp_path).program("a.py")
    (tmp_path / "a.py").write_bytes(head + b"found = 1\n")
    assert Folder(tmp_path).program("a.py").endswith("found = 1\n")


@pytest.mark.parametrize("head", [b"# coding: zip\n", b"# coding: no_such\n", b"\xef\xbb\xbf# coding: latin-1\n"])
def test_what_python_cannot_read_is_no_program(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "a.py").write_bytes(head + b"found = 1\n")
    with pytest.raises(AssertionError, match=r"a\.py"):
        Folder(tmp_path).program("a.py")


@pytest.mark.parametrize(
    "text",
    [
        "# -*- coding: utf-8 -*-\né = 1\n",
        "\ufeff# coding: utf-8\né = 1\n",
        "# coding: latin-1\ne = 1\n",
        '"""Encoding: one-hot"""\n# encoding: one-hot\né = 1\n',
        "",
    ],
)
def test_an_honest_program_is_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_bytes(text.encode())
    compile(text.encode(), "a.py", "exec")
    assert Folder(tmp_path).program("a.py") == text.removeprefix("\ufeff")


def test_a_byte_order_mark_is_no_content_of_a_text_or_a_table(tmp_path: Path) -> None:
    folder = Folder(write_files(tmp_path, {"y": b"\xef\xbb\xbfa,b\n1,2\n"}))
    assert folder.text("y") == "a,b\n1,2\n"
    assert folder.csv("y") == [{"a": "1", "b": "2"}]


def test_a_byte_order_mark_is_no_json(tmp_path: Path) -> None:
    """As for json.load, which says so in words that are about Python."""
    folder = Folder(
        write_files(tmp_path, {"x": b"\xef\xbb\xbf{}", "lines": b"\xef\xbb\xbf{}\n{}\n", "late": "{}\n\ufeff{}\n"})
    )
    with pytest.raises(AssertionError, match=r"^x begins with a byte order mark, which JSON does not have"):
        folder.json("x")
    for name, line in (("lines", 1), ("late", 2)):
        with pytest.raises(AssertionError, match=f"^{name}, line {line}, begins with a byte order mark"):
            folder.jsonl(name)


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "NaN", "[Infinity]", '{"a": -Infinity}', "1e400", '{"a": 1, "a": 2}', '[{"x": {"b": 1, "b": 1}}]',
        "[" * 200_000, '{"a":' * 200_000, "9" * 5000, "nan", "'a'", "{'a': 1}", '{"a": 1,}', "1 2", "\x00",
    ],
)  # fmt: skip
def test_json_is_read_strictly(tmp_path: Path, content: str) -> None:
    with pytest.raises(AssertionError, match="not valid JSON"):
        Folder(write_files(tmp_path, {"x.json": content})).json("x.json")


def test_sound_json_is_read(tmp_path: Path) -> None:
    content = {"a": [1, 2.5, None, True, "\u00e9"], "b": {"a": {}}}
    assert Folder(write_files(tmp_path, {"x": json.dumps(content)})).json("x") == content


@pytest.mark.parametrize(
    "content",
    ["", "\n\n", "a,a\n1,2\n", "a,b\n1\n", "a,b\n1,2,3\n", 'a\n"open', "a\n" + "x" * 200_000 + "\n",
     'a\n"x"y\n'],
)  # fmt: skip
def test_a_table_must_be_sound(tmp_path: Path, content: str) -> None:
    with pytest.raises(AssertionError):
        Folder(write_files(tmp_path, {"x.csv": content})).csv("x.csv")


def test_a_sound_table_is_read(tmp_path: Path) -> None:
    folder = Folder(write_files(tmp_path, {"x.csv": '\n\nid,name\r\n1,"a, ""b""\nc"\r\n\r\n2,\r\n'}))
    assert folder.csv("x.csv") == [{"id": "1", "name": 'a, "b"\nc'}, {"id": "2", "name": ""}]


def test_names_of_columns_are_taken_as_they_stand(tmp_path: Path) -> None:
    """To csv.DictReader and pandas, a blank is part of a name."""
    folder = Folder(write_files(tmp_path, {"x.csv": " id , name,name\n1,2,3\n"}))
    assert folder.csv("x.csv") == [{" id ": "1", " name": "2", "name": "3"}]


# --- arrays ----------------------------------------------------------------------------------------------------------


def test_sound_arrays_are_read() -> None:
    arrays: dict[str, Any] = {
        "a": numpy.arange(6).reshape(2, 3), "b": numpy.asfortranarray(numpy.eye(3)), "c": numpy.array([True, False]),
        "d": numpy.zeros((0, 4)), "e": numpy.float32(2), "f": numpy.arange(3, dtype=">i2"),
    }  # fmt: skip
    found = read_npz(npz(**{name: npy(array) for name, array in arrays.items()}), 1 << 20)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].shape == numpy.shape(array)
        assert (found[name] == array).all()


class _Runs:
    """Would leave a trace if it were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (os.environ["TRACE"],))


@pytest.mark.parametrize("read", ["npz", "npy", "pickle"])
def test_objects_are_never_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    monkeypatch.setenv("TRACE", str(tmp_path / "trace"))
    content = npy(numpy.array([_Runs()], dtype=object), allow_pickle=True)
    data = {"npz": npz(a=content), "npy": content, "pickle": b"\x80\x04K\x01."}[read]
    with pytest.raises(AssertionError):
        read_npz(data, 1 << 20)
    with pytest.raises(AssertionError):
        read_safetensors(data)
    assert not (tmp_path / "trace").exists()


def test_a_zip_bomb_is_refused_before_it_is_unpacked() -> None:
    data = npz(a=npy_with("{'descr': '|u1', 'fortran_order': False, 'shape': (50000000,), }\n", bytes(50_000_000)))
    assert len(data) < 100_000
    with pytest.raises(AssertionError, match="too much"):
        read_npz(data, 1 << 20)


def test_a_zip_that_lies_about_its_sizes_is_refused() -> None:
    data = bytearray(npz(a=npy(numpy.zeros(100_000))))
    central = data.rindex(b"PK\x01\x02")
    data[central + 24 : central + 28] = struct.pack("<I", 100)
    with pytest.raises(AssertionError):
        read_npz(bytes(data), 1 << 20)


_HEADER = "{{'descr': {}, 'fortran_order': False, 'shape': {}, }}\n"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x93NUMPY", b"\x93NUMPY\x09\x09\x00\x00", b"x" * 100,
        npy(numpy.zeros(4))[:-1], npy(numpy.zeros(4)) + b"x", npy(numpy.array(["a"])), npy(numpy.zeros(2, "f4,f4")),
        npy(numpy.array(["2020"], dtype="M8[Y]")), npy(numpy.array([1j])),
        npy_with(_HEADER.format("'<f8'", "(-1, -1)"), bytes(8)), npy_with(_HEADER.format("'<f8'", "(1 << 62,)")),
        npy_with(_HEADER.format("'<f8'", f"(0, {1 << 40}, {1 << 40})")),
        npy_with(_HEADER.format("'<f8'", "(1.0,)"), bytes(8)),
        npy_with(_HEADER.format("'<f8'", "(True,)"), bytes(8)), npy_with(_HEADER.format("'<f8'", "'x'")),
        npy_with(_HEADER.format("('<f8', (2,))", "(1,)"), bytes(16)),
        npy_with(_HEADER.format("'|O'", "(1,)"), bytes(8)),
        npy_with(_HEADER.format("[]", "()")), npy_with(_HEADER.format("'<f8'", "(" * 90 + ")" * 90)),
        npy_with(_HEADER.format("'<f8'", "-" * 9000 + "1")), npy_with("{" * 9000), npy_with("__import__('os')\n"),
        npy_with(_HEADER.format("'<f8'", "[1]*10**9")), npy_with("\x00" * 20), npy_with("{'descr': 1}\n"),
    ],
)  # fmt: skip
def test_a_lying_array_header_is_refused(content: bytes) -> None:
    with pytest.raises(AssertionError):
        read_npz(npz(a=content), 1 << 20)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_damaged_stream_is_refused(method: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("a.npy", npy(numpy.random.default_rng(0).random(500)))
    whole = stream.getvalue()
    for position in range(35, len(whole) - 90, 37):
        data = bytearray(whole)
        data[position : position + 4] = b"\xff\x00\xff\x07"
        with pytest.raises(AssertionError):
            read_npz(bytes(data), 1 << 20)


def test_encrypted_and_unknown_members_are_refused() -> None:
    for offset, value in ((6, 1), (8, 99)):
        data = bytearray(npz(a=npy(numpy.zeros(3))))
        data[offset] = value
        central = data.rindex(b"PK\x01\x02")
        data[central + offset + 2] = value
        with pytest.raises(AssertionError):
            read_npz(bytes(data), 1 << 20)


def test_names_that_occur_twice_are_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", npy(numpy.array([1])))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", npy(numpy.array([2])))
    with pytest.raises(AssertionError, match="twice"):
        read_npz(stream.getvalue(), 1 << 20)


def test_truth_values_are_true_or_false_whatever_their_bytes() -> None:
    content = npy_with(_HEADER.format("'|b1'", "(3,)"), b"\x00\x01\x7f")
    assert read_npz(npz(a=content), 1 << 20)["a"].view(numpy.uint8).tolist() == [0, 1, 1]
    found = read_safetensors(tensors({"a": tensor("BOOL", (3,), (0, 3))}, b"\x00\x01\x7f"))
    assert found["a"].view(numpy.uint8).tolist() == [0, 1, 1]


@settings(max_examples=150)
@given(st.data())
def test_no_damage_of_an_archive_breaks_the_reader(data: st.DataObject) -> None:
    whole = bytearray(npz(a=npy(numpy.arange(40.0)), b=npy(numpy.array([True]))))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        arrays = read_npz(bytes(whole), 1 << 20)
    except AssertionError:
        return
    assert all(array.dtype.kind in "fiub" for array in arrays.values())


def test_sound_tensors_are_read() -> None:
    body = struct.pack("<2f", 1.5, -2) + struct.pack("<H", 0x3FC0) + b"\x01"
    header = {
        "__metadata__": {"format": "pt"}, "a": tensor("F32", (2, 1), (0, 8)), "b": tensor("BF16", (), (8, 10)),
        "c": tensor("BOOL", (1,), (10, 11)), "d": tensor("I64", (0, 3), (11, 11)),
    }  # fmt: skip
    found = read_safetensors(tensors(header, body))
    assert found["a"].tolist() == [[1.5], [-2.0]]
    assert found["b"].tolist() == 1.5
    assert found["c"].tolist() == [True]
    assert found["d"].shape == (0, 3)


def test_what_the_library_writes_is_read() -> None:
    library = pytest.importorskip("safetensors.numpy")
    arrays = {"w": numpy.random.default_rng(0).random((3, 4)).astype("f4"), "n": numpy.arange(5)}
    found = read_safetensors(library.save(arrays))
    assert found.keys() == arrays.keys()
    assert all((found[name] == arrays[name]).all() for name in arrays)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x" * 7, struct.pack("<Q", 1 << 63), struct.pack("<Q", 100) + b"{}", tensors(b"["), tensors([]),
        tensors(b"\xff\xff"), tensors(b"[" * 100_000), tensors({"a": 1}), tensors({"a": {}}), tensors({"a": None}),
        tensors({"a": tensor("F99")}, bytes(4)), tensors({"a": tensor(["F32"])}, bytes(4)),
        tensors({"a": tensor(shape=(-1, -1))}, bytes(4)), tensors({"a": tensor(shape="1")}, bytes(4)),
        tensors({"a": tensor(shape=(True,))}, bytes(4)), tensors({"a": tensor(shape=(1.0,))}, bytes(4)),
        tensors({"a": tensor(shape=(2,))}, bytes(4)), tensors({"a": tensor(shape=(1,) * 40)}, bytes(4)),
        tensors({"a": tensor(shape=(0, 1 << 40, 1 << 40), offsets=(0, 0))}),
        tensors({"a": tensor(offsets=(0, 8))}, bytes(4)), tensors({"a": tensor(offsets=(4, 0))}, bytes(4)),
        tensors({"a": tensor(offsets=(-4, 0))}, bytes(4)), tensors({"a": tensor(offsets=(0.0, 4.0))}, bytes(4)),
        tensors({"a": tensor(offsets=(0,))}, bytes(4)),
        tensors(b'{"a": {"dtype":"F32","shape":[1],"data_offsets":[0,4]}, "a": {"dtype":"F32","shape":[1],'
                b'"data_offsets":[0,4]}}', bytes(4)),
        tensors({f"t{n}": tensor() for n in range(3)}, bytes(4)),
    ],
)  # fmt: skip
def test_a_lying_tensor_file_is_refused(data: bytes) -> None:
    with pytest.raises(AssertionError):
        read_safetensors(data)


ONE = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
REFUSED_BY_THE_LIBRARY: dict[str, tuple[bytes, str]] = {
    "hole_at_the_beginning": (tensors({"a": tensor(offsets=(4, 8))}, bytes(8)), "'a' begins after a hole of 4 bytes"),
    "hole": (tensors({"a": tensor(), "b": tensor(offsets=(8, 12))}, bytes(12)), "'b' begins after a hole of 4 bytes"),
    "bytes_of_no_tensor": (tensors({"a": tensor()}, bytes(8)), "its last 4 bytes belong to no tensor"),
    "bytes_alone": (tensors({}, bytes(3)), "its last 3 bytes"),
    "same_buffer": (tensors({"a": tensor(), "b": tensor()}, bytes(4)), "'b' overlaps with another one"),
    "half_a_buffer": (tensors({"a": tensor(), "b": tensor(offsets=(2, 6))}, bytes(8)), "'b' overlaps"),
    "empty_in_another": (
        tensors({"a": tensor(shape=(2,), offsets=(0, 8)), "z": tensor(shape=(0,), offsets=(4, 4))}, bytes(8)), "'z'"),
    "metadata_of_numbers": (tensors({"__metadata__": {"epoch": 3}}), "'epoch' in __metadata__ is not a text"),
    "metadata_of_null": (tensors({"__metadata__": {"a": None}}), "'a' in __metadata__ is not a text"),
    "metadata_in_a_list": (tensors({"__metadata__": []}), "__metadata__ is not an object"),
    "metadata_as_a_text": (tensors({"__metadata__": "x"}), "__metadata__ is not an object"),
    "metadata_twice": (tensors(b'{"__metadata__":{},"__metadata__":{}}'), "a key occurs twice"),
    "entry_with_a_field_twice": (tensors(b'{"a":{"shape":[1],"shape":[1]}}'), "a key occurs twice"),
    "byte_order_mark": (tensors(b"\xef\xbb\xbf{" + ONE + b"}", bytes(4)), "header is not JSON"),
    "utf_16": (tensors("{}".encode("utf-16-le")), "header is not JSON"),
    "not_a_number": (tensors(b"{" + ONE[:-1] + b',"x":NaN}}', bytes(4)), "NaN is not JSON"),
    "infinite": (tensors(b"{" + ONE[:-1] + b',"x":1e999}}', bytes(4)), "1e999 is not a finite number"),
    "long_number": (tensors(b"{" + ONE[:-1] + b',"x":' + b"9" * 400 + b"}}", bytes(4)), "is not a finite number"),
    "zero_with_a_sign": (tensors(b"{" + ONE.replace(b"[0", b"[-0") + b"}", bytes(4)), "impossible offsets"),
    "half_a_character": (tensors(b'{"__metadata__":{"a":"\\ud800"}}'), "header is not JSON"),
    "nested": (tensors(b"{" + ONE[:-1] + b',"x":' + b"[" * 126 + b"]" * 126 + b"}}", bytes(4)), "nested more than"),
}  # fmt: skip


@pytest.mark.parametrize("how", ["npz", "npy", "safetensors"])
def test_a_fault_of_an_array_file_names_the_file(tmp_path: Path, how: str) -> None:
    folder = Folder(write_files(tmp_path, {"a/x.y": b"x" * 20}))
    with pytest.raises(AssertionError, match=r"^a/x\.y: "):
        getattr(folder, how)("a/x.y")
    with pytest.raises(AssertionError, match=r"^a/none is missing$"):
        getattr(folder, how)("a/none")


@pytest.mark.parametrize("name", REFUSED_BY_THE_LIBRARY)
def test_what_the_library_refuses_is_refused(name: str) -> None:
    library = pytest.importorskip("safetensors.numpy")
    data, message = REFUSED_BY_THE_LIBRARY[name]
    with pytest.raises(Exception, match="Error while deserializing"):
        library.load(data)
    with pytest.raises(AssertionError, match=message):
        read_safetensors(data)


@pytest.mark.parametrize(
    "data",
    [
        tensors({}), tensors({"__metadata__": None}), tensors({"__metadata__": {}}), tensors({"": tensor()}, bytes(4)),
        tensors({"b": tensor(offsets=(4, 8)), "a": tensor()}, bytes(8)),
        tensors({"a": tensor(), "z": tensor(shape=(0, 3), offsets=(4, 4)), "b": tensor(offsets=(4, 8))}, bytes(8)),
        tensors(b" {" + ONE + b"} \t\r\n ", bytes(4)), tensors(b"{" + ONE[:-1] + b',"x":-0}}', bytes(4)),
        tensors(b'{"__metadata__":{"\\ud83d\\ude00":"\\u00e9"},' + ONE + b"}", bytes(4)),
        tensors(b"{" + ONE[:-1] + b',"x":' + b"[" * 125 + b"]" * 125 + b"}}", bytes(4)),
        tensors({"a": tensor("U16", (2,), (0, 4)), "b": tensor("U64", (), (4, 12))}, bytes(12)),
    ],
)  # fmt: skip
def test_what_the_library_reads_is_read(data: bytes) -> None:
    library = pytest.importorskip("safetensors.numpy")
    assert read_safetensors(data).keys() == library.load(data).keys()


def test_many_tensors_cannot_share_one_buffer() -> None:
    """One megabyte that a hundred tensors point at would unpack to a hundred."""
    header = {f"t{n}": tensor("U8", (1 << 20,), (0, 1 << 20)) for n in range(100)}
    with pytest.raises(AssertionError, match="overlap"):
        read_safetensors(tensors(header, bytes(1 << 20)))


def test_a_giant_header_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(AssertionError, match="header"):
        read_safetensors(tensors(b"[" + b"[]," * (3 << 20) + b"[]]"))


@settings(max_examples=150)
@given(st.data())
def test_no_damage_of_a_tensor_file_breaks_the_reader(data: st.DataObject) -> None:
    whole = bytearray(tensors({"a": tensor(), "b": tensor(offsets=(4, 8))}, bytes(8)))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        arrays = read_safetensors(bytes(whole))
    except AssertionError:
        return
    assert all(array.dtype.kind in "fiub" for array in arrays.values())
