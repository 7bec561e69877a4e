"""Which rows count, and their tally: worked out when the index changes, so that answers only look it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from bench.base.arrow import table_of
from bench.index.storage import ParquetFile
from bench.stats import LOST, PLACES, Tally
from bench.store import Decision

if TYPE_CHECKING:
    import duckdb

_STATUSES = ("none", "exact", "estimated", "simulated")
_KEYS = "profile, agent, model, ranked, agent_digest, case_id, case_version"
SUMS = tuple(field.name for field in fields(Tally))
_DECIMAL = f"DECIMAL(38,{PLACES})"
"""Of sums: exact, so that parts can be added in any order (`bench.stats.tally`)."""
ADDED = ", ".join(
    f"sum({name})::{_DECIMAL if name.endswith(('_sum', '_usd')) else 'BIGINT'} AS {name}" for name in SUMS
)
"""The columns of a tally, added up over the rows of a group."""
_DECISIONS = pa.schema(
    [
        pa.field("seq", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("kind", "run", "agent", "case_id", "cell", "replaced_by")),
        pa.field("attempt", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("why", "who", "when")),
    ]
)


def decisions_table(decisions: Sequence[Decision]) -> pa.Table:
    """The ledger, the oldest first."""
    rows = [{"seq": number, "case_id": it.case, **it.model_dump()} for number, it in enumerate(decisions, start=1)]
    return table_of(rows, _DECISIONS)


def scan(folder: Path, parts: Sequence[ParquetFile]) -> str:
    """The rows of `parts` as a table of SQL; names of parts are made by this program and need no quoting."""
    paths = ", ".join(literal(str(folder / part.name)) for part in parts)
    return f"read_parquet([{paths}])"


def literal(text: str) -> str:
    """`text` as a string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def ignored_rows(connection: duckdb.DuckDBPyConnection, rows: str, decisions: ParquetFile, folder: Path) -> pa.Table:
    """Ids of the rows that do not count. `why`: `decision` (the ledger) or `attempt` (another attempt counts).

    The last decision about a record holds (`bench.store.decisions`); of the attempts at one cell of a run, the first
    verdict, else the latest failure (`bench.stats.entrants.unique_cells`).
    """
    connection.execute("CREATE OR REPLACE TEMP TABLE undone (id BIGINT)")
    if decisions.rows:
        ledger = scan(folder, [decisions])
        connection.execute(
            f"""INSERT INTO undone SELECT r.id FROM {rows} r JOIN {ledger} d ON r.run = d.run
            AND coalesce(d.attempt = r.attempt, true) AND coalesce(d.agent = r.agent, true)
            AND coalesce(d.case_id = r.case_id, true) AND coalesce(d.cell = r.cell, true)
            GROUP BY r.id HAVING arg_max(d.kind, d.seq) <> 'accepted'"""  # noqa: S608  names of this program
        )
    return connection.sql(
        f"""WITH repeated AS (
            SELECT run FROM {rows} GROUP BY run HAVING min(attempt) <> max(attempt)
        ), ranked AS (
            SELECT id, row_number() OVER (
                PARTITION BY run, cell
                ORDER BY outcome <> 'graded', if(outcome = 'graded', finished, NULL) ASC NULLS LAST,
                         finished DESC, path, line
            ) AS place
            FROM {rows} WHERE run IN (FROM repeated) AND id NOT IN (FROM undone)
        )
        SELECT id, 'decision' AS why FROM undone UNION ALL SELECT id, 'attempt' FROM ranked WHERE place > 1
        ORDER BY id"""  # noqa: S608
    ).to_arrow_table()


def tally(connection: duckdb.DuckDBPyConnection, rows: str, ignored: str) -> pa.Table:
    """Counts and sums of the rows that count, one row for each agent, model and case in each of their versions."""
    return connection.sql(
        tally_select(f"(FROM {rows} WHERE id NOT IN (SELECT id FROM {ignored}))", _KEYS)  # noqa: S608
    ).to_arrow_table()


def tally_select(rows: str, keys: str) -> str:
    """The tally of `rows`, one row for each of the `keys`."""
    statuses = "\n".join(
        f"count(*) FILTER (outcome = 'graded' AND status = '{status}') AS {status}_cells,"
        f"{_exact('cost_usd', status)} AS {status}_usd,"
        for status in _STATUSES
    )
    known = "\n".join(
        f"count({column}) FILTER (outcome = 'graded') AS {name}_known,{_exact(column)} AS {name}_sum,"
        for name, column in (("seconds", "agent_seconds"), ("input", "input_tokens"), ("output", "output_tokens"))
    )
    return f"""SELECT {keys}, count(*) AS cells,
            count(*) FILTER (outcome = 'graded') AS graded,
            count(*) FILTER (outcome IN {LOST}) AS lost,
            coalesce(sum(tries), 0)::BIGINT AS retried,
            count(*) FILTER (outcome = 'graded' AND success) AS succeeded,
            {_exact("score")} AS score_sum,
            {_exact("steps")} AS steps_sum,
            {known}
            count(*) FILTER (outcome = 'graded' AND status = 'unknown') AS cost_unknown,
            {statuses}
            max(started) FILTER (outcome = 'graded') AS last_graded, max(started) AS last_started
        FROM (SELECT *, if(cost_usd IS NULL, 'unknown', cost_status) AS status FROM {rows})
        GROUP BY {keys}"""  # noqa: S608


def add_tallies(connection: duckdb.DuckDBPyConnection, one: str, other: str) -> pa.Table:
    """The tally of the rows of both."""
    return connection.sql(
        f"""SELECT {_KEYS}, {ADDED}, max(last_graded) AS last_graded, max(last_started) AS last_started
        FROM (FROM {one} UNION ALL BY NAME FROM {other}) GROUP BY {_KEYS}"""  # noqa: S608
    ).to_arrow_table()


def _exact(column: str, status: str = "") -> str:
    """The sum over graded rows. A number that is too large for any record adds nothing, instead of ending the build."""
    which = "outcome = 'graded'" + (f" AND status = '{status}'" if status else "")
    return f"coalesce(sum(TRY_CAST({column} AS {_DECIMAL})) FILTER ({which}), 0)::{_DECIMAL}"
