"""Values between judge and subject: what goes in comes out, and hostile bytes are refused, never believed."""

from __future__ import annotations

import io
import json
import math
import struct
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.guest import codec
from bench.guest.codec import CodecError, decode, encode, read_frame, write_frame
from tests.helpers.frames import frame, reader

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=30)
_KEYS = st.text(max_size=8)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=20
)
_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["t", "v", "b", "d", "s", "n", "sizes"]) | st.text(max_size=3), inner, max_size=5
        )
    ),
    max_leaves=25,
)
_KINDS = st.sampled_from(["list", "dict", "float", "bytes", "array", "file", "other"])
_SIZES = st.integers(-1, 3) | st.sampled_from([1 << 30, 1 << 40, 1 << 62])
_NODES = st.fixed_dictionaries(
    {"t": _KINDS | _JUNK},
    optional={
        "v": _JUNK,
        "b": st.integers(-2, 2) | _JUNK,
        "d": st.sampled_from(["<f8", "|b1", "|u1", "<i4", "|O", "<U4"]) | _JUNK,
        "s": st.lists(_SIZES, max_size=20) | _JUNK,
    },
)


def carry(value: Any) -> Any:
    """`value` after a journey to the other side."""
    tree, buffers = encode(value)
    stream = io.BytesIO()
    write_frame(stream, {"value": tree}, buffers)
    header, parts = read_frame(reader(stream.getvalue()))
    return decode(header["value"], parts)


@given(_VALUES)
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    assert carry(value) == value


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinities_cross(value: float) -> None:
    assert carry([value]) == [value]


def test_nan_crosses() -> None:
    assert math.isnan(carry(math.nan))


def test_a_dictionary_that_looks_like_an_array_stays_a_dictionary() -> None:
    value = {"t": "array", "d": "<f8", "s": [1], "b": 0, "v": {"t": "bytes", "b": 0}}
    assert carry(value) == value


def test_tuples_become_lists_and_numeric_keys_strings() -> None:
    assert carry((1, (2,))) == [1, [2]]
    assert carry({1: "a"}) == {"1": "a"}


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "u2", "f2", "f4", "f8", ">f8", ">i4"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0,), (0, 3), (1, 1, 1)])
def test_arrays_come_back_with_shape_and_values(dtype: str, shape: tuple[int, ...]) -> None:
    value = (numpy.arange(math.prod(shape)) % 2).reshape(shape).astype(dtype)
    back = carry({"x": [value]})["x"][0]
    assert back.shape == shape
    assert back.dtype == value.dtype.newbyteorder("<")
    assert (back == value).all()
    back[...] = 1  # its own memory, writable


def test_arrays_that_are_not_contiguous_come_back_right() -> None:
    value = numpy.arange(12.0).reshape(3, 4).T[::2]
    assert (carry(value) == value).all()


@pytest.mark.parametrize(("value", "plain"), [(numpy.float32(0.5), 0.5), (numpy.int64(7), 7), (numpy.array(3), 3)])
def test_numpy_scalars_become_numbers(value: Any, plain: float) -> None:
    assert carry(value) == plain
    assert type(carry(value)) is type(plain)


def test_tensors_become_arrays() -> None:
    torch = pytest.importorskip("torch")
    value = torch.arange(6.0, requires_grad=True).reshape(2, 3).T
    assert (carry(value) == value.detach().numpy()).all()
    assert carry(torch.tensor([1.5], dtype=torch.bfloat16)).tolist() == [1.5]
    assert carry(torch.tensor(True)) is True
    assert carry(torch.nn.Parameter(torch.ones(2))).tolist() == [1.0, 1.0]


class _Anything:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


class _Int(int):
    """A number that lies about itself."""


@pytest.mark.parametrize(
    "value",
    [_Anything(), {1, 2}, 1j, object, lambda: 1, numpy.array([object()]), numpy.array(["a"]), {(1,): 2}, {None: 1},
     _Int(3), [_Anything()], numpy.zeros(2, dtype="f4,i4"), numpy.array(["2020-01-01"], dtype="M8[D]")],
)  # fmt: skip
def test_objects_do_not_cross(value: object) -> None:
    with pytest.raises(CodecError):
        encode(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(CodecError):
        encode(value)


def test_a_value_of_too_many_parts_is_refused() -> None:
    with pytest.raises(CodecError):
        encode([0] * (codec.MAX_NODES + 1))


# --- hostile frames: every refusal is a CodecError, whatever the bytes are -------------------------------------------


@given(_JUNK | _NODES, st.lists(st.binary(max_size=24), max_size=2))
def test_no_tree_breaks_the_decoder(tree: Any, buffers: list[bytes]) -> None:
    try:
        value = decode(tree, buffers)
    except CodecError:
        return
    assert encode(value), "what was accepted is a value of the protocol"


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    try:
        header, _ = read_frame(reader(data))
    except (CodecError, EOFError, struct.error):
        return
    assert isinstance(header, dict)


@given(_JUNK)
def test_no_header_breaks_the_reader(junk: Any) -> None:
    try:
        header, parts = read_frame(reader(frame(json.dumps(junk).encode()) + b"x" * 20))
    except (CodecError, EOFError):
        return
    assert "sizes" not in header
    assert sum(map(len, parts)) <= 20


def array(**changes: Any) -> dict[str, Any]:
    return {"t": "array", "d": "<f8", "s": [1], "b": 0, **changes}


@pytest.mark.parametrize(
    "node",
    [
        array(d="|O"), array(d=["<f8"]), array(d={}), array(d="f8,f8"), array(d="<f8\0"), array(s=[-1]), array(s=[2]),
        array(s="1"), array(s=[True]), array(s=[1.0]), array(s=[1 << 62, 1 << 62]), array(s=[0, 1 << 30, 1 << 30]),
        array(s=[1] * 40), array(b=1), array(b=-1), array(b=True), array(b="0"), {"t": "bytes"}, {"t": "bytes", "b": 9},
        {"t": "float", "v": "1e5"}, {"t": "float", "v": ["nan"]}, {"t": "file", "n": "../x", "b": 0}, {"t": []},
        {"t": "list", "v": {}}, {"t": "dict", "v": []}, {}, [], [1], {"t": "pickle", "b": 0},
    ],
)  # fmt: skip
def test_a_lying_node_is_refused(node: Any) -> None:
    with pytest.raises(CodecError):
        decode(node, [struct.pack("<d", 1.0)])
    with pytest.raises(CodecError):
        decode({"t": "list", "v": [node]}, [struct.pack("<d", 1.0)])


def test_an_empty_array_with_an_impossible_shape_is_refused() -> None:
    with pytest.raises(CodecError):
        decode(array(s=[0, 1 << 30, 1 << 30, 1 << 30]), [b""])


def test_truth_values_are_true_or_false_whatever_their_bytes() -> None:
    found = decode(array(d="|b1", s=[3]), [b"\x00\x01\xff"])
    assert found.view(numpy.uint8).tolist() == [0, 1, 1]


def test_a_deep_tree_is_refused() -> None:
    tree: Any = 1
    for _ in range(500):
        tree = {"t": "list", "v": [tree]}
    with pytest.raises(CodecError):
        decode(tree, [])


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000, b'{"a":' * 100_000, b"{}", b"[]", b"1", b'"x"', b"null", b"\xff\xfe", b'{"sizes": 1}',
        b'{"sizes": [-1]}', b'{"sizes": [true]}', b'{"sizes": [1.5]}', b'{"sizes": ["1"]}', b'{"sizes": [1e400]}',
        b'{"sizes": [9223372036854775807]}', b'{"sizes": [], "value": ' + b"9" * 10_000 + b"}",
    ],
)  # fmt: skip
def test_a_hostile_header_is_refused(text: bytes) -> None:
    with pytest.raises(CodecError):
        read_frame(reader(frame(text)))


def test_a_frame_that_says_it_is_huge_is_refused_before_it_is_read() -> None:
    asked: list[int] = []

    def read(count: int) -> bytes:
        asked.append(count)
        return struct.pack("<Q", codec.MAX_TEXT + 1)

    with pytest.raises(CodecError, match="too large"):
        read_frame(read)
    assert asked == [8]


def test_a_frame_that_is_cut_short_is_noticed() -> None:
    stream = io.BytesIO()
    write_frame(stream, {"value": 1}, [b"buffer"])
    for end in range(len(stream.getvalue())):
        with pytest.raises((EOFError, CodecError)):
            read_frame(reader(stream.getvalue()[:end]))


def test_an_array_without_a_dimension_is_a_number_to_who_asks_for_numbers() -> None:
    """`encode` sends such arrays as numbers; a process that is not honest may send the array."""
    content = [struct.pack("<d", 1.5)]
    assert decode(array(s=[]), content).shape == ()
    found = decode({"t": "list", "v": [array(s=[])]}, content, scalars=True)
    assert (found, type(found[0])) == ([1.5], float)
