"""The files of the index and its state: Parquet files of rows sorted by agent, case and time, replaced as one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, ValidationError

from bench.base.files import lock, write_atomic
from bench.base.model import Model
from bench.formats.record import RECORD_SCHEMA
from bench.index.columns import INDEX_SCHEMA, SORTED_BY, schema
from bench.store import git_folder, is_remote

CHUNK_ROWS = 65_536
"""Rows that are sorted and written together: a row group."""
PART_ROWS = 8 * CHUNK_ROWS
_PLAIN = ("id", "line", "seed", "judge_seed", "score", "cost_usd", "seconds", "started", "finished")
"""Columns in which hardly a value comes twice, so that a dictionary of them is only in the way."""
FILES = pa.schema([("path", pa.string()), ("blob", pa.string()), ("number", pa.int64())])
MIRROR = "mirror.git"
"""Of a branch behind a URL: a copy beside its index."""
_NAME = "state.json"
_PATIENCE_S = 900.0
"""For another process that builds."""
_LINGER_S = 3600.0
"""How long a replaced file stays for those who still read it."""


class ParquetFile(Model):
    """A file of the index that is whole."""

    name: str = Field(pattern=r"^[a-z]+-[0-9a-f]{16}\.parquet$")
    rows: int = Field(ge=0)
    size: int = Field(ge=0)
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
        self._done: list[ParquetFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._held += batch.num_rows
        if self._held >= CHUNK_ROWS:
            self._flush()

    def finish(self) -> list[ParquetFile]:
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
            self._done.append(_finished(self._folder, self._name, self._rows))
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


def write_table(folder: Path, kind: str, table: pa.Table) -> ParquetFile:
    """A small table as a file of its own."""
    name = f"{kind}-{secrets.token_hex(8)}.parquet"
    with open_writer(folder / name, table.schema) as writer:
        writer.write_table(table)
    return _finished(folder, name, table.num_rows)


def read_table(path: Path) -> pa.Table:
    """A whole file. `pyarrow.parquet.read_table` would import pyarrow's datasets, and with them pandas, for 0.4 s."""
    with pq.ParquetFile(path) as file:
        return file.read()


def read_files(folder: Path, state: IndexState) -> dict[int, tuple[str, str]]:
    """Path and blob of every file that was read, by its number, in order."""
    rows = read_table(folder / state.files.name).to_pylist()
    return {row["number"]: (row["path"], row["blob"]) for row in sorted(rows, key=itemgetter("number"))}


def merge(folder: Path, parts: Sequence[ParquetFile]) -> list[ParquetFile]:
    """The same rows in fewer parts; the old files stay where they are."""
    writer = PartWriter(folder)
    tables = [read_table(folder / part.name).cast(schema()) for part in parts]
    for batch in in_order(pa.concat_tables(tables)).to_batches(max_chunksize=CHUNK_ROWS):
        writer.add(batch)
    return writer.finish()


def to_merge(parts: Sequence[ParquetFile], small: int = 2 * CHUNK_ROWS, most: int = 12) -> list[ParquetFile]:
    """Parts that a merge should replace: the small ones, once there are too many of them."""
    found = [part for part in parts if part.rows < small]
    return found if len(found) > most else []


def _finished(folder: Path, name: str, rows: int) -> ParquetFile:
    """A file that was written, once it is on the disk: the state that names it must not come before it."""
    with (folder / name).open("rb") as file:
        os.fsync(file.fileno())
        return ParquetFile(name=name, rows=rows, size=os.fstat(file.fileno()).st_size)


class IndexState(Model):
    """A whole index of one commit."""

    index_schema: int = INDEX_SCHEMA
    record_schema: int = RECORD_SCHEMA
    tip: str
    parts: list[ParquetFile]
    files: ParquetFile
    """Path, blob and number of every file that was read."""
    decisions: ParquetFile
    ignored: ParquetFile
    """Ids of the rows that do not count, with the reason."""
    tally: ParquetFile
    """Counts and sums of the rows that count, by agent, model, case and their versions."""
    summaries: dict[str, ParquetFile] = {}
    """See `bench.index.summaries`; by name."""
    skipped: int = 0
    """Lines that are not records."""
    where: str = ""
    """The first of them."""
    retired: dict[str, float] = {}
    """Files of earlier states, and since when (Unix seconds) they are not needed."""

    def refs(self) -> list[ParquetFile]:
        return [*self.parts, self.files, self.decisions, self.ignored, self.tally, *self.summaries.values()]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


def index_folder(cache: Path, repository: Path | str, branch: str) -> Path:
    """Where the index of a branch is kept; raises `UserError` where the repository does not exist."""
    address = str(repository) if is_remote(repository) else str(git_folder(Path(repository)))
    return cache / "index" / hashlib.sha256(f"{address}\0{branch}".encode()).hexdigest()[:24]


def load(folder: Path) -> IndexState | None:
    """The state of the index; None where there is none that is whole and of this version."""
    try:
        state = IndexState.model_validate_json((folder / _NAME).read_bytes())
        whole = all((folder / ref.name).stat().st_size == ref.size for ref in state.refs())
    except (OSError, ValidationError):
        return None
    current = (state.index_schema, state.record_schema) == (INDEX_SCHEMA, RECORD_SCHEMA)
    return state if whole and current else None


def store(folder: Path, state: IndexState, before: IndexState | None) -> IndexState:
    """Make `state` the index, and remove what neither it nor a reader of a moment ago needs."""
    now = time.time()
    needed = {ref.name for ref in state.refs()}
    retired = {**(before.retired if before else {}), **{ref.name: now for ref in (before.refs() if before else ())}}
    kept = {name: since for name, since in retired.items() if name not in needed and now - since < _LINGER_S}
    stored = state.model_copy(update={"retired": kept})
    write_atomic(folder / _NAME, stored.model_dump_json(indent=1).encode())
    sweep(folder, needed | kept.keys())
    return stored


def sweep(folder: Path, needed: set[str]) -> None:
    """Remove the files of builds that were killed."""
    for path in folder.glob("*.parquet"):
        if path.name not in needed:
            path.unlink(missing_ok=True)


def forget(folder: Path) -> None:
    """No state: the next update makes the index anew."""
    with contextlib.suppress(FileNotFoundError):
        (folder / _NAME).unlink()


def building(folder: Path) -> contextlib.AbstractContextManager[int]:
    """Only one process at a time builds; the others wait."""
    return lock(folder / "lock", patience_s=_PATIENCE_S, busy="is being built by another process")
