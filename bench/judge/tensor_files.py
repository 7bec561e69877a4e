"""Files of safetensors, read by the judge itself: what the library refuses is refused."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bench.judge.json_text import finite, strict_json
from bench.judge.values import shown, true_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_HEADER = 8 << 20
_DEEPEST = 127
_LONGEST_WHOLE = 20
"""Digits of a number of 64 bits."""
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}


def read_safetensors(data: bytes) -> dict[str, NDArray[Any]]:
    """Tensors of a .safetensors file as arrays (bfloat16 as float32); AssertionError when it is not one.

    Beside `data` it takes the tensors' own size once, of bfloat16 twice; header, shapes and sizes are checked before.
    What the library `safetensors` refuses is refused: a buffer that overlaps or lies behind a hole, bytes of no tensor,
    metadata that are no texts. So is a name that stands there twice, of which the library takes one.
    Format: https://huggingface.co/docs/safetensors (8 bytes length, JSON header, raw little-endian buffers).
    """
    assert len(data) >= 8, "not a safetensors file: too short"
    (size,) = struct.unpack("<Q", data[:8])
    assert size <= len(data) - 8, "not a safetensors file: header longer than the file"
    assert size <= _MAX_HEADER, "not a safetensors file: header too long"
    entries = _header(data[8 : 8 + size])
    _check_metadata(entries.pop("__metadata__", None))
    body = memoryview(data)[8 + size :]
    places = {name: _place(name, entry, len(body)) for name, entry in entries.items()}
    _check_cover(places, len(body))
    return {name: _tensor(name, entry, body[slice(*places[name])]) for name, entry in entries.items()}


def _header(content: bytes) -> dict[str, Any]:
    """The entries, read as the library's parser of JSON reads them (serde_json)."""
    try:
        text = content.decode()
        header = strict_json(text, _DEEPEST, _whole)
        if "\\u" in text:
            # An escape that is half a character becomes what cannot be encoded.
            json.dumps(header, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise AssertionError(f"not a safetensors file: header is not JSON: {shown(str(error))}") from None
    assert isinstance(header, dict), "not a safetensors file: header is not an object"
    return header


def _whole(text: str) -> int | float:
    # To the library, zero with a sign and what has more than 64 bits are floats: neither sizes nor offsets.
    return int(text) if text != "-0" and len(text) <= _LONGEST_WHOLE else finite(text)


def _check_metadata(found: object) -> None:
    assert found is None or isinstance(found, dict), "not a safetensors file: __metadata__ is not an object"
    odd = [name for name, value in (found or {}).items() if not isinstance(value, str)]
    assert not odd, f"not a safetensors file: {shown(odd[0])} in __metadata__ is not a text"


def _check_cover(places: Mapping[str, tuple[int, int]], size: int) -> None:
    """Buffers follow each other from the beginning of `size` bytes to their end."""
    reached = 0
    for name, (start, end) in sorted(places.items(), key=lambda it: it[1]):
        fault = "overlaps with another one" if start < reached else f"begins after a hole of {start - reached} bytes"
        assert start == reached, f"not a safetensors file: tensor {shown(name)} {fault}"
        reached = end
    assert reached == size, f"not a safetensors file: its last {size - reached} bytes belong to no tensor"


def _place(name: str, entry: object, size: int) -> tuple[int, int]:
    """Where the buffer of a tensor begins and ends."""
    assert isinstance(entry, dict), f"tensor {shown(name)}: entry is not an object"
    match entry.get("data_offsets"):
        case [int(start), int(end)] if bool not in (type(start), type(end)) and 0 <= start <= end <= size:
            return start, end
    raise AssertionError(f"tensor {shown(name)}: impossible offsets")


def _tensor(name: str, entry: dict[str, Any], buffer: memoryview) -> NDArray[Any]:
    import numpy

    kind, shape = entry.get("dtype"), entry.get("shape")
    assert isinstance(kind, str) and kind in _DTYPES, f"tensor {shown(name)}: dtype {shown(kind)} is not supported"
    assert isinstance(shape, list) and len(shape) <= 16, f"tensor {shown(name)}: impossible shape"
    assert all(type(n) is int and 0 <= n <= 1 << 40 for n in shape), f"tensor {shown(name)}: impossible shape"
    dtype = numpy.dtype(_DTYPES[kind])
    assert math.prod(shape) * dtype.itemsize == len(buffer), f"tensor {shown(name)}: shape and size disagree"
    try:
        raw = numpy.frombuffer(buffer, dtype=dtype).reshape(shape)
    except ValueError as error:
        raise AssertionError(f"tensor {shown(name)}: {error}") from None
    if kind != "BF16":
        return true_values(raw) if dtype.kind == "b" else raw.copy()
    # The upper half of a float32, filled in place.
    wide = numpy.zeros(raw.shape, dtype="<u4")
    wide.reshape(-1).view("<u2")[1::2] = raw.reshape(-1)
    return wide.view("<f4")
