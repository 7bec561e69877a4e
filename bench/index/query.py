"""Asking the index: SELECTs with a time limit, in a database that reaches no other file, and answers as files."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from bench.base.errors import UserError
from bench.base.install import find_data_folders
from bench.base.times import Progress

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

    from bench.index.storage import IndexState


# Of the extra `index`: the rest of the program runs without them.
_NEEDED = ("duckdb", "msgspec", "pandas", "pyarrow")
VIEWS = ("records", "cells", "checks", "decisions", "all_records", "tally")
"""`records`: those that count. `cells`: of several attempts at a cell of a run only the one that counts. `checks`: one
row a check of `cells`. `decisions`: the ledger. `all_records`: the withdrawn ones too. `tally`: counts and sums of
`cells` by agent, model and case and their versions. The views of `bench.index.summaries` are internal."""
MEMORY = "1500MB"
TIMEOUT_S = 300.0
Format = Literal["csv", "json", "parquet"]


def is_available() -> bool:
    """Is everything installed that the index is made and asked with?"""
    return all(find_spec(name) is not None for name in _NEEDED)


def require() -> None:
    """Raises `UserError` where something is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(f"needs {', '.join(missing)}", where="the index", remedy="pip install 'ml-dev-bench[index]'")


class Index:
    """An index at one commit, ready to be asked."""

    def __init__(
        self, folder: Path, state: IndexState, repository: Path | str, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.folder = folder
        self.repository = repository
        self.state = state
        self._timeout_s = timeout_s
        self._connection = _open(folder, state)

    @property
    def local(self) -> Path:
        """The repository on this machine that holds the branch."""
        from bench.index.storage import MIRROR
        from bench.store import git_folder, is_remote

        return self.folder / MIRROR if is_remote(self.repository) else git_folder(Path(self.repository))

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def frame(self, sql: str, values: Sequence[Any] = ()) -> pd.DataFrame:
        """The answer as a pandas frame; raises `UserError` for anything but one SELECT that works."""
        with self._asked(sql, values) as answer:
            return answer.df()

    def table(self, sql: str, values: Sequence[Any] = ()) -> pa.Table:
        """The answer as an Arrow table; raises as `frame` does."""
        with self._asked(sql, values) as answer:
            return answer.to_arrow_table()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The answer as tuples; raises as `frame` does."""
        table = self.table(sql, values)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    @contextmanager
    def batches(self, sql: str, rows: int = 20_000) -> Iterator[pa.RecordBatchReader]:
        """The answer piece by piece, however large it is; raises as `frame` does."""
        with self._asked(sql, ()) as answer:
            yield answer.to_arrow_reader(rows)

    @contextmanager
    def _asked(self, sql: str, values: Sequence[Any]) -> Iterator[duckdb.DuckDBPyRelation]:
        import duckdb
        import pyarrow as pa

        cursor = self._connection.cursor()
        timer = threading.Timer(self._timeout_s, cursor.interrupt)
        timer.daemon = True
        try:
            _require_select(cursor, sql)
            timer.start()
            yield cursor.sql(sql, params=list(values))
        except duckdb.InterruptException:
            raise UserError(
                f"took more than {self._timeout_s:.0f} s", where="query", remedy="narrow it, or raise --timeout"
            ) from None
        except (duckdb.Error, pa.ArrowException) as error:
            raise _fault(error) from None
        finally:
            timer.cancel()
            cursor.close()


class DamagedError(UserError):
    """A file of the index cannot be read."""


def open_index(
    repository: Path | str,
    branch: str = "mldb-results",
    *,
    cache: Path | None = None,
    progress: Progress = lambda line: None,
    anew: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Index:
    """The index of a branch, brought to its tip first.

    repository: a path or a URL. cache: default is this user's. anew: build it from nothing. Raises `UserError`.
    """
    require()
    from bench.index.build import rebuild, update
    from bench.index.storage import index_folder

    folder = index_folder(cache or find_data_folders().cache, repository, branch)
    state = (rebuild if anew else update)(folder, repository, branch, progress)
    try:
        return Index(folder, state, repository, timeout_s=timeout_s)
    except DamagedError:
        progress("the cached index is damaged and is made anew")
        return Index(folder, rebuild(folder, repository, branch, progress), repository, timeout_s=timeout_s)


def _open(folder: Path, state: IndexState) -> duckdb.DuckDBPyConnection:
    """A database that shows the views, and from then on reads only the files of the index and writes no file."""
    import duckdb

    from bench.index.build import connect
    from bench.index.tally import literal

    # The order matters: paths are allowed while access is still on, and the last statement forbids later changes.
    connection = connect(MEMORY)
    paths = ", ".join(literal(str(folder / ref.name)) for ref in state.refs())
    try:
        for name, sql in _views(folder, state):
            connection.execute(f"CREATE VIEW {name} AS {sql}")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET allow_community_extensions = false")
        connection.execute("SET temp_directory = ''")
        connection.execute(f"SET allowed_paths = [{paths}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        connection.close()
        raise DamagedError(_first_line(error), where=folder, remedy="run `results query` with --rebuild") from None
    return connection


def _views(folder: Path, state: IndexState) -> list[tuple[str, str]]:
    from bench.index.tally import scan

    ignored = scan(folder, [state.ignored])
    everything = scan(folder, state.parts)
    undone = _without(ignored, "WHERE why = 'decision'") if state.ignored.rows else ""
    uncounted = _without(ignored, "") if state.ignored.rows else ""
    shown = "id, run, agent, agent_digest, model, case_id, case_digest, profile, trial, started"
    return [
        ("all_records", f"FROM {everything}"),
        ("records", f"FROM {everything}{undone}"),
        ("cells", f"FROM {everything}{uncounted}"),
        ("checks", f"SELECT * EXCLUDE (c), unnest(c) FROM (SELECT {shown}, unnest(checks) AS c FROM cells)"),  # noqa: S608
        ("decisions", f"FROM {scan(folder, [state.decisions])}"),
        ("tally", f"FROM {scan(folder, [state.tally])}"),
        *((name, f"FROM {scan(folder, [ref])}") for name, ref in state.summaries.items()),
    ]


def _without(ignored: str, which: str) -> str:
    return f" WHERE id NOT IN (SELECT id FROM {ignored} {which})"  # noqa: S608  names of this program


def _require_select(cursor: duckdb.DuckDBPyConnection, sql: str) -> None:
    import duckdb

    statements = cursor.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UserError("is not one SELECT", where="query", remedy="the results can be read only")


def _fault(error: Exception) -> UserError:
    import duckdb

    if isinstance(error, duckdb.PermissionException):
        remedy = f"a query sees {', '.join(VIEWS)}, and no file"
    elif isinstance(error, duckdb.OutOfMemoryException):
        remedy = "narrow it"
    elif isinstance(error, duckdb.IOException | duckdb.SerializationException):
        return DamagedError(_first_line(error), where="index", remedy="make it anew with --rebuild")
    else:
        remedy = "DESCRIBE records lists the columns"
    return UserError(_first_line(error), where="query", remedy=remedy)


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split("\n\n")[0].split())[:500]


def export(index: Index, sql: str, path: Path, form: Format, progress: Progress = lambda line: None) -> int:
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


def to_json(value: object) -> str:
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
