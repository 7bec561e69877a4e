"""Parts: the Parquet files that hold the rows of the index, each sorted by agent, case and time."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.index.columns import SORTED_BY, schema

CHUNK_ROWS = 65_536
"""Rows that are sorted and written together: a row group."""
PART_ROWS = 8 * CHUNK_ROWS
_PLAIN = ("id", "line", "seed", "judge_seed", "score", "cost_usd", "seconds", "started", "finished")
"""Columns in which hardly a value comes twice, so that a dictionary of them is only in the way."""


@dataclass(frozen=True)
class PartFile:
    """A part that is whole."""

    name: str
    rows: int
    size: int
    """Bytes."""


class PartWriter:
    """Rows to as many parts as they need, in bounded memory. A part counts when `finish` has named it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[pa.RecordBatch] = []
        self._held = 0
        self._writer: pq.ParquetWriter | None = None
        self._name = ""
        self._rows = 0
        self._done: list[PartFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._held += batch.num_rows
        if self._held >= CHUNK_ROWS:
            self._flush()

    def finish(self) -> list[PartFile]:
        """The parts that were written."""
        self._flush()
        self._close()
        return self._done

    def _flush(self) -> None:
        if not self._held:
            return
        chunk = in_order(pa.Table.from_batches(self._waiting))
        self._waiting, self._held = [], 0
        if self._writer is None:
            self._name = f"part-{secrets.token_hex(8)}.parquet"
            self._writer = open_writer(self._folder / self._name, schema())
        self._writer.write_table(chunk, row_group_size=CHUNK_ROWS * 2)
        self._rows += chunk.num_rows
        if self._rows >= PART_ROWS:
            self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            path = self._folder / self._name
            _sync(path)
            self._done.append(PartFile(self._name, self._rows, path.stat().st_size))
            self._writer, self._rows = None, 0


def in_order(table: pa.Table) -> pa.Table:
    """Sorted, so that questions about one agent or case read few pages and equal values lie together."""
    return table.sort_by([(name, "ascending") for name in SORTED_BY])


def open_writer(path: Path, columns: pa.Schema) -> pq.ParquetWriter:
    """How every file of the index is written."""
    names = [name for name in columns.names if name not in _PLAIN]
    return pq.ParquetWriter(
        path, columns, compression="zstd", compression_level=1, use_dictionary=names, store_schema=False
    )


def write_table(folder: Path, kind: str, table: pa.Table) -> PartFile:
    """A small table as a file of its own."""
    name = f"{kind}-{secrets.token_hex(8)}.parquet"
    with open_writer(folder / name, table.schema) as writer:
        writer.write_table(table)
    _sync(folder / name)
    return PartFile(name, table.num_rows, (folder / name).stat().st_size)


def merge(folder: Path, parts: Sequence[PartFile]) -> list[PartFile]:
    """The same rows in fewer parts; the old files stay where they are."""
    writer = PartWriter(folder)
    tables = [pq.read_table(folder / part.name, schema=schema()) for part in parts]
    for batch in in_order(pa.concat_tables(tables)).to_batches(max_chunksize=CHUNK_ROWS):
        writer.add(batch)
    return writer.finish()


def to_merge(parts: Sequence[PartFile], small: int = 2 * CHUNK_ROWS, most: int = 12) -> list[PartFile]:
    """Parts that a merge should replace: the small ones, once there are too many of them."""
    found = [part for part in parts if part.rows < small]
    return found if len(found) > most else []


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
