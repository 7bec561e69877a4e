"""What the site asks of every record, counted when the index changes: a night is added to what the nights before said.

Every column of a summary can be added up in any order, so that the rows that are new are all that a build reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.stats import MICRO, CellLine

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_SERIES = "profile, agent, model, case_id, case_version"
_METERED = "outcome = 'graded' AND len(usage) > 0 AND output_tokens IS NOT NULL AND input_tokens IS NOT NULL"
_KNOWN = "cost_usd IS NOT NULL AND cost_status <> 'unknown' AND cost_status"
_PAID = f"floor(cost_usd * {MICRO} + 0.5)::BIGINT"
LISTED = """case_id, strftime(started, '%Y-%m-%dT%H:%M:%SZ') AS started, run, cell, agent, model, profile, trial,
    outcome, success, score, cost_usd, cost_status, steps, coalesce(nullif(stop_reason, ''), cause, '') AS ended"""
"""Of `records`, in the order of `CellLine`."""
DIGEST = f"hash({', '.join('case_id' if name == 'case' else name for name in CellLine._fields)})"
"""Of a row with the columns of `LISTED`."""


@dataclass(frozen=True)
class Summary:
    """One row for all rows with the same keys."""

    keys: str
    rows: str
    """SELECT of `cells` or `records`: keys, and what is added up."""
    added: str
    """Each column from those of the same name: of rows, or of two summaries."""


def _sums(*names: str) -> str:
    return ", ".join(f"sum({name})::BIGINT AS {name}" for name in names)


SUMMARIES: Mapping[str, Summary] = {
    "course": Summary(
        _SERIES,
        f"""SELECT {_SERIES}, (len(flags) > 0)::BIGINT AS flagged, len(claims) AS claims, overclaims,
            started AS last, ({_METERED})::BIGINT AS metered,
            if({_METERED}, input_tokens - cache_read_tokens - cache_write_tokens, 0) AS uncached,
            if({_METERED}, cache_read_tokens, 0) AS cache_read, if({_METERED}, cache_write_tokens, 0) AS cache_write,
            if({_METERED}, output_tokens, 0) AS output, if({_METERED}, coalesce(reasoning_tokens, 0), 0) AS reasoning
        FROM cells""",  # noqa: S608  names of this program, here and below
        _sums("flagged", "claims", "overclaims", "metered", "uncached", "cache_read", "cache_write", "output")
        + f", {_sums('reasoning')}, max(last) AS last",
    ),
    "notes": Summary(
        f"{_SERIES}, kind, name",
        f"""SELECT *, 1 AS times FROM (
            SELECT {_SERIES}, 'mode' AS kind, unnest(failure_modes) AS name FROM cells
            UNION ALL SELECT {_SERIES}, 'flag', unnest(flags) FROM cells
            UNION ALL SELECT {_SERIES}, 'stop', stop_reason FROM cells WHERE outcome = 'graded'
        ) WHERE name IS NOT NULL""",  # noqa: S608
        _sums("times"),
    ),
    "judged": Summary(
        f"{_SERIES}, check_id",
        f"""SELECT {_SERIES}, it.check_id, (it.value >= 1)::BIGINT AS passed, 1 AS times,
            {{'started': started, 'run': run, 'cell': cell, 'place': place, 'id': id}} AS last
        FROM (SELECT {_SERIES}, started, run, cell, id, generate_subscripts(checks, 1) AS place, unnest(checks) AS it
            FROM cells WHERE outcome = 'graded')""",  # noqa: S608
        f"{_sums('passed', 'times')}, max(last) AS last",
    ),
    "days": Summary(
        "profile, case_id, case_version, day",
        f"""SELECT profile, case_id, case_version, started::DATE AS day, 1 AS cells,
            if({_KNOWN} <> 'simulated', {_PAID}, 0) AS paid, if({_KNOWN} = 'simulated', {_PAID}, 0) AS simulated,
            (cost_usd IS NULL OR cost_status = 'unknown')::BIGINT AS unknown
        FROM cells""",  # noqa: S608
        _sums("cells", "paid", "simulated", "unknown"),
    ),
    "weeks": Summary(
        f"{_SERIES}, week",
        f"""SELECT {_SERIES}, date_trunc('week', started)::DATE AS week, success::BIGINT AS succeeded, 1 AS graded
        FROM cells WHERE ranked AND outcome = 'graded'""",  # noqa: S608
        _sums("succeeded", "graded"),
    ),
    "versions": Summary(
        f"{_SERIES}, agent_digest",
        f"""SELECT {_SERIES}, agent_digest, {{'started': started, 'run': run, 'cell': cell}} AS first,
            {{'started': started, 'run': run, 'cell': cell, 'commit': agent_commit}} AS last FROM cells""",  # noqa: S608
        "min(first) AS first, max(last) AS last",
    ),
    "listed": Summary(
        "run, case_id, month",
        f"""SELECT run, case_id, started[:7] AS month, attempt AS first_attempt, attempt AS last_attempt, 1 AS cells,
            (outcome <> 'graded')::BIGINT AS ungraded, {DIGEST} AS digest,
            {{'started': began, 'cell': cell, 'category': case_category, 'title': case_title}} AS named
        FROM (SELECT started AS began, attempt, case_category, case_title, {LISTED} FROM records)""",  # noqa: S608
        f"""{_sums("cells", "ungraded")}, min(first_attempt) AS first_attempt, max(last_attempt) AS last_attempt,
            max(named) AS named, bit_xor(digest) AS digest""",
    ),
}
"""Of each agent at each case: findings and tokens, notes by kind, checks, weeks, versions of the agent. Dollars by day,
and cells by run and month.

A run of which there are several attempts may hold a record twice: who asks `listed` leaves such runs out.
"""
REPEATED = "SELECT run FROM listed GROUP BY run HAVING min(first_attempt) <> max(last_attempt)"


def summarized(connection: duckdb.DuckDBPyConnection, name: str, rows: str, ignored: str) -> pa.Table:
    """The summary of `rows`; `ignored`: those that do not count, and why."""
    one = SUMMARIES[name]
    return connection.sql(
        f"""WITH cells AS NOT MATERIALIZED (FROM {rows} WHERE id NOT IN (SELECT id FROM {ignored})),
            records AS NOT MATERIALIZED (
                FROM {rows} WHERE id NOT IN (SELECT id FROM {ignored} WHERE why = 'decision')
            )
        SELECT {one.keys}, {one.added} FROM ({one.rows}) GROUP BY {one.keys}"""  # noqa: S608
    ).to_arrow_table()


def added(connection: duckdb.DuckDBPyConnection, name: str, earlier: str, later: str) -> pa.Table:
    """The summary of the rows of both."""
    one = SUMMARIES[name]
    return connection.sql(
        f"""SELECT {one.keys}, {one.added} FROM (FROM {earlier} UNION ALL BY NAME FROM {later})
        GROUP BY {one.keys}"""  # noqa: S608
    ).to_arrow_table()
