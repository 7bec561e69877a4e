"""Arrays made without pandas are those that pyarrow makes."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.base.arrow import array_of, table_of

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "number": (pa.float64(), st.floats(allow_nan=False)),
    "truth": (pa.bool_(), st.booleans()),
    "instant": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    "words": (pa.list_(pa.string()), st.lists(st.text(st.characters(exclude_categories=["Cs"])))),
    "nothing": (pa.null(), st.none()),
}


@pytest.mark.parametrize("name", TYPES)
@settings(deadline=None)
@given(data=st.data())
def test_an_array_is_that_of_pyarrow(name: str, data: st.DataObject) -> None:
    type_, value = TYPES[name]
    values = data.draw(st.lists(st.none() | value, max_size=20))
    made = array_of(values, type_)
    made.validate(full=True)
    assert made.equals(pa.array(values, type_)) and made.null_count == sum(it is None for it in values)


def test_an_instant_of_another_zone_is_the_same_instant() -> None:
    there = datetime.fromisoformat("2026-11-21T02:35:11.123456+05:30")
    (made,) = array_of([there], pa.timestamp("us", tz="UTC")).to_pylist()
    assert made == there and made.utcoffset() == timedelta(0)


def test_a_table_has_the_columns_of_its_schema_or_of_its_first_row() -> None:
    rows: list[dict[str, Any]] = [{"a": 1, "b": "x", "c": None, "d": 1}, {"a": None, "b": "y", "c": None, "d": 0.5}]
    assert table_of(rows).equals(pa.Table.from_pylist(rows))
    odd: list[dict[str, Any]] = [{"a": b"bytes"}, {"a": None}]
    assert table_of(odd).equals(pa.Table.from_pylist(odd)), "what is not of a plain type is left to pyarrow"
    schema = pa.schema([("b", pa.string()), ("z", pa.int64())])
    assert table_of(rows, schema).equals(pa.Table.from_pylist(rows, schema))
    assert table_of([], schema).equals(pa.Table.from_pylist([], schema))


def test_many_values_are_left_to_pyarrow() -> None:
    many = list(range(6_000))
    assert array_of(many, pa.int64()).equals(pa.array(many))


def test_pandas_is_not_imported() -> None:
    code = (
        "import sys, pyarrow as pa; from bench.base.arrow import array_of, table_of; "
        "array_of(['a', None], pa.string()); table_of([{'a': 1, 'b': 0.5, 'c': True}]); "
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"
