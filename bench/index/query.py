"""Asking the index in SQL, which may come from anywhere: it reads the index and nothing else, and writes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import UserError
from bench.index.require import require
from bench.places import find_places

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

    from bench.index.state import State

VIEWS = ("records", "cells", "checks", "decisions", "all_records", "tally")
"""`records`: those that count. `cells`: of several attempts at a cell of a run only the one that counts. `checks`: one
row a check of `cells`. `decisions`: the ledger. `all_records`: the withdrawn ones too. `tally`: counts and sums of
`cells` by agent, model and case and their versions."""
MEMORY = "1500MB"
TIMEOUT_S = 300.0


class Index:
    """An index at one commit, ready to be asked."""

    def __init__(self, folder: Path, state: State, *, timeout_s: float = TIMEOUT_S) -> None:
        self.folder = folder
        self.state = state
        self._timeout_s = timeout_s
        self._connection = _open(folder, state)

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
    progress: Callable[[str], None] = lambda line: None,
    anew: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> Index:
    """The index of a branch, brought to its tip first.

    repository: a path or a URL. cache: default is this user's. anew: build it from nothing. Raises `UserError`.
    """
    require()
    from bench.index.build import rebuild, update
    from bench.index.state import index_folder

    folder = index_folder(cache or find_places().cache, repository, branch)
    state = (rebuild if anew else update)(folder, repository, branch, progress)
    try:
        return Index(folder, state, timeout_s=timeout_s)
    except DamagedError:
        progress("the cached index is damaged and is made anew")
        return Index(folder, rebuild(folder, repository, branch, progress), timeout_s=timeout_s)


def _open(folder: Path, state: State) -> duckdb.DuckDBPyConnection:
    """A database that shows the views, and from then on can reach no file but the parts, and write none."""
    import duckdb

    from bench.index.build import connect
    from bench.index.counting import literal

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


def _views(folder: Path, state: State) -> list[tuple[str, str]]:
    from bench.index.counting import scan

    ignored = scan(folder, [state.ignored.part()])
    everything = scan(folder, [ref.part() for ref in state.parts])
    undone = _without(ignored, "WHERE why = 'decision'") if state.ignored.rows else ""
    uncounted = _without(ignored, "") if state.ignored.rows else ""
    shown = "id, run, agent, agent_digest, model, case_id, case_digest, profile, trial, started"
    return [
        ("all_records", f"FROM {everything}"),
        ("records", f"FROM {everything}{undone}"),
        ("cells", f"FROM {everything}{uncounted}"),
        ("checks", f"SELECT * EXCLUDE (c), unnest(c) FROM (SELECT {shown}, unnest(checks) AS c FROM cells)"),  # noqa: S608
        ("decisions", f"FROM {scan(folder, [state.decisions.part()])}"),
        ("tally", f"FROM {scan(folder, [state.tally.part()])}"),
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
