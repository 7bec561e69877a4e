"""Values between judge and subject: JSON plus raw buffers. Nothing that could run code crosses.

Plain scalars are themselves; everything else is a tagged object, so that an agent's dictionary can never
be mistaken for an array. Arrays travel as dtype, shape and bytes, and are checked before they are built.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

MAX_DEPTH = 60
MAX_NODES = 2_000_000
MAX_FRAME = 1 << 29
"""Bytes of all buffers of a message; decoded, it takes twice as much memory."""
MAX_TEXT = 64 << 20
"""Bytes of the JSON part alone."""
_MAX_MARKS = 2 * MAX_NODES
"""Commas and opening brackets in it, counted before it is parsed: each stands for up to 120 bytes of objects."""
_DTYPES = frozenset(["|b1", "|i1", "|u1", *(f"<{kind}{size}" for kind in "iuf" for size in "248")])


class CodecError(ValueError):
    """The value or the bytes are not of the protocol."""


def encode(value: object, *, scalars: bool = True) -> tuple[Any, list[bytes]]:
    """`value` as a JSON tree and the buffers it refers to; raises `CodecError` for anything else.

    scalars: arrays without a dimension become plain numbers.
    """
    buffers: list[bytes] = []
    count = 0

    def visit(item: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if depth > MAX_DEPTH or count > MAX_NODES:
            raise CodecError("nested too deeply or too large")
        if item is None or type(item) in (bool, int, str):
            return item
        if type(item) is float:
            return item if math.isfinite(item) else {"t": "float", "v": repr(item)}
        if type(item) in (list, tuple):
            return {"t": "list", "v": [visit(part, depth + 1) for part in item]}
        if type(item) is dict:
            if not all(type(key) in (str, int) for key in item):
                raise CodecError("dictionary keys must be strings or integers")
            return {"t": "dict", "v": {str(key): visit(part, depth + 1) for key, part in item.items()}}
        if type(item) in (bytes, bytearray):
            buffers.append(bytes(item))
            return {"t": "bytes", "b": len(buffers) - 1}
        return visit_other(item, depth)

    def visit_other(item: Any, depth: int) -> Any:
        # A tensor, recognised by its methods: torch is not imported here for cases that do without it.
        if hasattr(item, "detach") and hasattr(item, "numpy"):
            item = item.detach().cpu()
            # NumPy does not have this type.
            item = (item.float() if str(item.dtype) == "torch.bfloat16" else item).contiguous().numpy()
        if hasattr(item, "__array_interface__") and hasattr(item, "tobytes"):
            if item.shape == () and (scalars or type(item).__name__ != "ndarray"):
                return visit(item.item(), depth + 1)
            little = item.astype(item.dtype.newbyteorder("<")) if item.dtype.str.startswith(">") else item
            if little.dtype.str not in _DTYPES:
                raise CodecError(f"arrays of {item.dtype} cannot cross")
            buffers.append(little.tobytes())
            return {"t": "array", "d": little.dtype.str, "s": list(little.shape), "b": len(buffers) - 1}
        raise CodecError(
            f"values of type {type(item).__name__} cannot cross; return numbers, strings, lists, dicts or arrays"
        )

    return visit(value, 0), buffers


def decode(
    tree: object, buffers: list[bytes], file: Callable[[str, bytes], str] | None = None, *, scalars: bool = False
) -> Any:
    """The inverse of `encode`. `file` makes a path from (name, content) where the other side sent a file.

    scalars: arrays without a dimension become plain numbers here, too, as the other side need not be honest.
    """
    taken: set[int] = set()

    def buffer(node: dict[str, Any]) -> bytes:
        index = node.get("b")
        if type(index) is not int or not 0 <= index < len(buffers):
            raise CodecError("refers to a buffer that is not there")
        if index in taken:
            # Copied each time: a few bytes of the message would take any amount of memory.
            raise CodecError("refers to a buffer twice")
        taken.add(index)
        return buffers[index]

    def visit(node: object, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise CodecError("nested too deeply")
        if not isinstance(node, dict):
            if isinstance(node, list):
                raise CodecError("bare list")
            return node
        kind, value = node.get("t"), node.get("v")
        if kind == "list" and isinstance(value, list):
            return [visit(part, depth + 1) for part in value]
        if kind == "dict" and isinstance(value, dict):
            return {key: visit(part, depth + 1) for key, part in value.items()}
        if kind == "float" and value in ("nan", "inf", "-inf"):
            return float(value)
        if kind == "bytes":
            return buffer(node)
        if kind == "array":
            found = _array(node, buffer(node))
            return found.item() if scalars and found.shape == () else found
        if kind == "file" and file is not None:
            return file(str(node.get("n")), buffer(node))
        raise CodecError(f"unknown kind {kind[:40]!r}" if isinstance(kind, str) else "a node without a kind")

    return visit(tree, 0)


def _array(node: dict[str, Any], data: bytes) -> Any:
    import numpy

    name, shape = node.get("d"), node.get("s")
    if not isinstance(name, str) or name not in _DTYPES or not isinstance(shape, list) or len(shape) > 16:
        raise CodecError("array of a kind that cannot cross")
    if not all(type(size) is int and 0 <= size <= MAX_FRAME for size in shape):
        raise CodecError("array with an impossible shape")
    dtype = numpy.dtype(name)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise CodecError("array whose shape does not fit its bytes")
    try:
        result = numpy.frombuffer(data, dtype=dtype).reshape(shape)
    except ValueError as error:
        raise CodecError(f"array that cannot be: {error}") from None
    # A truth value of any other byte is both true and false to numpy.
    return result.view(numpy.uint8) != 0 if name == "|b1" else result.copy()


def write_frame(stream: BinaryIO, header: dict[str, Any], buffers: list[bytes]) -> None:
    """One message: length of header, header with the buffers' sizes, buffers."""
    text = json.dumps({**header, "sizes": [len(part) for part in buffers]}).encode()
    stream.write(struct.pack("<Q", len(text)))
    stream.write(text)
    for part in buffers:
        stream.write(part)
    stream.flush()


def read_frame(read: Callable[[int], bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """One message from `read`, which returns exactly n bytes or raises; raises `CodecError` on nonsense."""
    (size,) = struct.unpack("<Q", read(8))
    if size > MAX_TEXT:
        raise CodecError("message too large")
    text = read(size)
    if text.count(b",") + text.count(b"[") + text.count(b"{") > _MAX_MARKS:
        raise CodecError("message of too many values")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"message is not JSON: {error}") from None
    sizes = header.pop("sizes", None) if isinstance(header, dict) else None
    if not isinstance(sizes, list) or len(sizes) > MAX_NODES or not all(type(n) is int and n >= 0 for n in sizes):
        raise CodecError("message without valid sizes")
    if sum(sizes) > MAX_FRAME:
        raise CodecError("message too large")
    return header, [read(n) for n in sizes]
