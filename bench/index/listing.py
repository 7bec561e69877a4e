"""`bench.stats.listing` from the index: the months of every case, and the lines of one month."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.stats import CaseMonth, CellLine

if TYPE_CHECKING:
    from bench.index.query import Index

_COLUMNS = """case_id, strftime(started, '%Y-%m-%dT%H:%M:%SZ') AS started, run, cell, agent, model, profile, trial,
    outcome, success, score, cost_usd, cost_status, steps, coalesce(nullif(stop_reason, ''), cause, '') AS ended"""
"""In the order of `CellLine`."""
_LISTED = f"""WITH repeated AS (
    SELECT run FROM records GROUP BY run HAVING min(attempt) <> max(attempt)
), listed AS (
    SELECT {_COLUMNS} FROM records WHERE run NOT IN (FROM repeated) AND starts_with(strftime(started, '%Y-%m'), ?)
    UNION ALL SELECT DISTINCT {_COLUMNS} FROM records
    WHERE run IN (FROM repeated) AND starts_with(strftime(started, '%Y-%m'), ?)
)"""  # noqa: S608  names of this program
"""Lines, one for records that are stored twice. Values: the month, twice; all months where it is empty."""


def case_months(index: Index) -> list[CaseMonth]:
    rows = index.rows(
        f"""{_LISTED} SELECT case_id, started[:7] AS month, count(*), bit_xor(hash(listed))::VARCHAR
        FROM listed GROUP BY case_id, month ORDER BY case_id, month""",  # noqa: S608
        ["", ""],
    )
    return [CaseMonth(*row) for row in rows]


def lines_of_month(index: Index, month: str) -> list[CellLine]:
    """`month`: as `CaseMonth` has it."""
    return [CellLine(*row) for row in index.rows(f"{_LISTED} FROM listed ORDER BY ALL", [month, month])]
