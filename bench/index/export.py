"""An answer of the index as a file: CSV, JSON (one object a line) or Parquet, written piece by piece."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from bench.index.query import Index

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["csv", "json", "parquet"]


def export(
    index: Index, sql: str, path: Path, form: Format, progress: Callable[[str], None] = lambda line: None
) -> int:
    """Write the answer to `sql` to `path`, whole or not at all; its rows. Raises `UserError`.

    csv: UTF-8 with a header; lists as JSON, unknown as an empty field, an empty text as `""`. json: an object a line.
    """
    rows = 0
    with index.batches(sql) as batches, _replacing(path) as file, _writer(form, file, batches.schema) as write:
        for batch in batches:
            write(batch)
            rows += batch.num_rows
            progress(f"{rows:,} rows written")
    return rows


@contextlib.contextmanager
def _writer(form: Format, file: IO[bytes], schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if form == "parquet":
        with pq.ParquetWriter(file, schema, compression="zstd") as parquet:
            yield parquet.write_batch
    elif form == "csv":
        flat = pa.schema([pa.field(it.name, pa.string() if pa.types.is_nested(it.type) else it.type) for it in schema])
        with pyarrow.csv.CSVWriter(file, flat) as csv:
            yield lambda batch: csv.write_batch(_flattened(batch, flat))
    else:
        yield lambda batch: _write_lines(file, batch)


def write_csv(file: IO[bytes], answer: pa.Table) -> None:
    """A whole answer as CSV."""
    with _writer("csv", file, answer.schema) as write:
        for batch in answer.to_batches():
            write(batch)


def _flattened(batch: pa.RecordBatch, flat: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [
        pa.array([None if value is None else to_json(value) for value in column.to_pylist()], pa.string())
        if pa.types.is_nested(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=flat)


def _write_lines(file: IO[bytes], batch: pa.RecordBatch) -> None:
    file.writelines(f"{to_json(row)}\n".encode() for row in batch.to_pylist())


def to_json(value: Any) -> str:
    """Rows, lists and values as JSON; instants in ISO 8601, what JSON has no number for as null."""
    import msgspec

    return msgspec.json.encode(value, enc_hook=str).decode()


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that takes its place when everything was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
