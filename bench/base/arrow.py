"""Arrow arrays of a few Python values without pandas, which `pyarrow.array` imports to ask whether they are its own.

That import takes longer than all else that is done for one new record.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_FEW = 5_000
"""From here on pandas is imported sooner than the values are read one by one."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CODES = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float": "f", "double": "d",
}  # fmt: skip
"""Of Python's own arrays."""


def array_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """As `pyarrow.array(values, type_)`, for values that are of this type, or None."""
    import pyarrow as pa

    if len(values) > _FEW or not _is_plain(type_):
        return pa.array(values, type_)
    parts = [_presence(values), *_buffers(values, type_)]
    children = [array_of([it for them in values for it in them or ()], type_.value_type)] if _is_list(type_) else None
    return pa.Array.from_buffers(type_, len(values), parts, children=children)


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema | None = None) -> pa.Table:
    """As `pyarrow.Table.from_pylist`; without a schema the names are those of the first row."""
    import pyarrow as pa

    names = schema.names if schema is not None else list(rows[0])
    columns = [[row.get(name) for row in rows] for name in names]
    types = schema.types if schema is not None else [_type_of(values) for values in columns]
    arrays = [array_of(values, type_) for values, type_ in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema, names=None if schema is not None else names)


def _type_of(values: Sequence[Any]) -> pa.DataType:
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    found = {
        frozenset[type](): pa.null(),
        frozenset({bool}): pa.bool_(),
        frozenset({int}): pa.int64(),
        frozenset({float}): pa.float64(),
        frozenset({int, float}): pa.float64(),
        frozenset({str}): pa.string(),
    }
    return found.get(frozenset(kinds)) or pa.array(values).type


def _is_plain(type_: pa.DataType) -> bool:
    """Is it of those that `_buffers` lays out?"""
    from pyarrow import types

    plain = (types.is_null, types.is_boolean, types.is_integer, types.is_float64, types.is_string)
    instant = types.is_timestamp(type_) and (type_.unit, type_.tz) == ("us", "UTC")
    return instant or any(it(type_) for it in plain) or (types.is_list(type_) and _is_plain(type_.value_type))


def _is_list(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(type_))


def _presence(values: Sequence[Any]) -> pa.Buffer | None:
    """A bit for each value; none where none is missing."""
    return None if all(it is not None for it in values) else _bits([it is not None for it in values])


def _buffers(values: Sequence[Any], type_: pa.DataType) -> list[pa.Buffer | None]:
    """What follows the bits of presence, as Arrow's columnar format lays it out."""
    import pyarrow as pa

    if pa.types.is_null(type_):
        return []
    if pa.types.is_boolean(type_):
        return [_bits([bool(it) for it in values])]
    if pa.types.is_string(type_):
        texts = [b"" if it is None else it.encode() for it in values]
        return [_offsets(texts), pa.py_buffer(b"".join(texts))]
    if _is_list(type_):
        return [_offsets([it or () for it in values])]
    if pa.types.is_timestamp(type_):
        whole = [0 if it is None else (it - _EPOCH) // _MICROSECOND for it in values]
        return [pa.py_buffer(array("q", whole))]
    return [pa.py_buffer(array(_CODES[str(type_)], [0 if it is None else it for it in values]))]


def _bits(values: Sequence[bool]) -> pa.Buffer:
    """The first value is the lowest bit of the first byte."""
    import pyarrow as pa

    joined = sum(1 << place for place, value in enumerate(values) if value)
    return pa.py_buffer(joined.to_bytes((len(values) + 7) // 8, "little"))


def _offsets(parts: Sequence[Sequence[Any]]) -> pa.Buffer:
    import pyarrow as pa

    return pa.py_buffer(array("i", [0, *accumulate(map(len, parts))]))
