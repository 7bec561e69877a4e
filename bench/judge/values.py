"""Validators for whatever came from the agent: the value in the form asked for, or a failed check."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray


_SHOWN = 80
_MAX_HEADER = 8 << 20
# The signature of an entry in the central directory of a zip file.
_ENTRY = b"PK\x01\x02"
_MOST_MEMBERS = 10_000
_SAFETENSORS_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}


def shown(value: object) -> str:
    """A short, safe rendering of a hostile value for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def number(value: Any, low: float | None = None, high: float | None = None) -> float:
    """A finite number, not a boolean, within [low, high]."""
    # Not isinstance: a boolean is an int to it.
    assert type(value) in (int, float), f"a number is needed, not {shown(value)}"
    try:
        result = float(value)
    except OverflowError:
        raise AssertionError("the number is too large") from None
    assert math.isfinite(result), f"a finite number is needed, not {result}"
    assert low is None or result >= low, f"{result:g} is below {low:g}"
    assert high is None or result <= high, f"{result:g} is above {high:g}"
    return result


def integer(value: object, low: int | None = None, high: int | None = None) -> int:
    """A whole number, not a boolean, within [low, high]."""
    assert type(value) is int or (type(value) is float and value.is_integer()), (
        f"a whole number is needed, not {shown(value)}"
    )
    number(value, low, high)
    return int(value)


def string(value: object) -> str:
    """A string."""
    assert type(value) is str, f"a string is needed, not {shown(value)}"
    return value


def sequence(value: object, length: int | None = None) -> list[Any]:
    """A list, of `length` items."""
    assert type(value) is list, f"a list is needed, not {shown(value)}"
    assert length is None or len(value) == length, f"{length} items are needed, there are {len(value)}"
    return value


def numbers(value: object, length: int | None = None) -> list[float]:
    """A list (or one-dimensional array) of finite numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [number(item) for item in sequence(value, length)]


def mapping(value: object, keys: Sequence[str] | None = None) -> dict[str, Any]:
    """A dictionary that has at least `keys`."""
    assert type(value) is dict, f"an object is needed, not {shown(value)}"
    missing = [key for key in keys or () if key not in value]
    assert not missing, f"keys are missing: {', '.join(missing)}"
    return value


def array(value: object, shape: Sequence[int | None] | None = None, finite: bool = True) -> NDArray[float64]:
    """A numeric array as float64; None in `shape` stands for any size."""
    import numpy

    assert isinstance(value, (numpy.ndarray, list, int, float)), f"an array is needed, not {shown(value)}"
    try:
        result = numpy.asarray(value)
        assert result.dtype.kind in "fiub", f"a numeric array is needed, not one of {result.dtype}"
        result = result.astype(numpy.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise AssertionError(f"a numeric array is needed: {error}") from None
    if shape is not None:
        fits = len(shape) == result.ndim and all(b is None or a == b for a, b in zip(result.shape, shape, strict=True))
        assert fits, f"shape {tuple(shape)} is needed, it is {result.shape}"
    assert not finite or bool(numpy.isfinite(result).all()), "the array has values that are not finite"
    return result


def read_npz(data: bytes, max_bytes: int) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz archive; AssertionError when it is not one, holds objects, or unpacks to over `max_bytes`."""
    # zipfile makes an object of every entry before they can be counted.
    assert data.count(_ENTRY) <= _MOST_MEMBERS, f"the archive has more than {_MOST_MEMBERS} members"
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            assert sum(member.file_size for member in members) <= max_bytes, "the archive unpacks to too much"
            names = [member.filename.removesuffix(".npy") for member in members]
            assert len(set(names)) == len(names), "a name occurs twice in the archive"
            return {name: _read_npy(archive, member, max_bytes) for name, member in zip(names, members, strict=True)}
    except AssertionError:
        raise
    except Exception as error:
        # zipfile and numpy raise many kinds of errors; only the agent's bytes can be the reason.
        raise AssertionError(f"not a readable npz archive: {shown(str(error))}") from None


def _read_npy(archive: zipfile.ZipFile, member: zipfile.ZipInfo, max_bytes: int) -> NDArray[Any]:
    import numpy

    with archive.open(member) as file:
        content = file.read(max_bytes + 1)
    assert len(content) <= max_bytes, "the archive unpacks to too much"
    stream = io.BytesIO(content)
    version = numpy.lib.format.read_magic(stream)
    reader = numpy.lib.format.read_array_header_1_0 if version == (1, 0) else numpy.lib.format.read_array_header_2_0
    shape, fortran, dtype = reader(stream)
    assert dtype.kind in "fiub" and not dtype.hasobject, f"{shown(member.filename)}: only numeric arrays are read"
    rest = content[stream.tell() :]
    assert math.prod(shape) * dtype.itemsize == len(rest), f"{shown(member.filename)}: shape and size do not agree"
    result = _own(numpy.frombuffer(rest, dtype=dtype))
    return result.reshape(shape, order="F" if fortran else "C")


def _own(values: NDArray[Any]) -> NDArray[Any]:
    """A copy; truth values become 0 or 1, as any other byte is both true and false to numpy."""
    return values.view("u1") != 0 if values.dtype.kind == "b" else values.copy()


def read_safetensors(data: bytes) -> dict[str, NDArray[Any]]:
    """Tensors of a .safetensors file as arrays (bfloat16 as float32); AssertionError when it is not one.

    Format: https://huggingface.co/docs/safetensors (8 bytes length, JSON header, raw little-endian buffers).
    """
    assert len(data) >= 8, "not a safetensors file: too short"
    (size,) = struct.unpack("<Q", data[:8])
    assert size <= len(data) - 8, "not a safetensors file: header longer than the file"
    assert size <= _MAX_HEADER, "not a safetensors file: header too long"
    try:
        header = json.loads(data[8 : 8 + size], object_pairs_hook=without_duplicates)
    except (ValueError, RecursionError) as error:
        raise AssertionError(f"not a safetensors file: header is not JSON: {shown(str(error))}") from None
    assert isinstance(header, dict), "not a safetensors file: header is not an object"
    body = memoryview(data)[8 + size :]
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    places = {name: _place(name, entry, len(body)) for name, entry in entries.items()}
    assert sum(end - start for start, end in places.values()) <= len(body), "tensors overlap"
    return {name: _tensor(name, entry, body[slice(*places[name])]) for name, entry in entries.items()}


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of a JSON document; ValueError when it names a key twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


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
    assert isinstance(kind, str) and kind in _SAFETENSORS_DTYPES, (
        f"tensor {shown(name)}: dtype {shown(kind)} is not supported"
    )
    assert isinstance(shape, list) and len(shape) <= 16, f"tensor {shown(name)}: impossible shape"
    assert all(type(n) is int and 0 <= n <= 1 << 40 for n in shape), f"tensor {shown(name)}: impossible shape"
    dtype = numpy.dtype(_SAFETENSORS_DTYPES[kind])
    assert math.prod(shape) * dtype.itemsize == len(buffer), f"tensor {shown(name)}: shape and size disagree"
    try:
        result = _own(numpy.frombuffer(buffer, dtype=dtype)).reshape(shape)
    except ValueError as error:
        raise AssertionError(f"tensor {shown(name)}: {error}") from None
    return (result.astype(numpy.uint32) << 16).view(numpy.float32) if kind == "BF16" else result
