"""`bench.stats.listing` from the index: the months of every case, and the lines of one month."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bench.index.summaries import DIGEST, LISTED, REPEATED
from bench.stats import CaseMonth, CellLine

if TYPE_CHECKING:
    from bench.index.query import Index

_LISTED = f"""SELECT {LISTED} FROM records
    WHERE run NOT IN ({REPEATED}) AND started >= ?::TIMESTAMPTZ AND started < ?::TIMESTAMPTZ
    UNION ALL SELECT DISTINCT {LISTED} FROM records
    WHERE run IN ({REPEATED}) AND started >= ?::TIMESTAMPTZ AND started < ?::TIMESTAMPTZ"""  # noqa: S608  names of this program
"""Lines of a month, one for records that are stored twice. Values: where it begins and where it ends, twice."""


def case_months(index: Index) -> list[CaseMonth]:
    rows = index.rows(
        f"""WITH found AS (
            SELECT case_id, month, cells, digest FROM listed WHERE run NOT IN ({REPEATED})
            UNION ALL SELECT case_id, started[:7], 1, {DIGEST}
            FROM (SELECT DISTINCT {LISTED} FROM records WHERE run IN ({REPEATED}))
        )
        SELECT case_id, month, sum(cells)::BIGINT, bit_xor(digest)::VARCHAR
        FROM found GROUP BY case_id, month ORDER BY case_id, month"""  # noqa: S608
    )
    return [CaseMonth(*row) for row in rows]


def lines_of_month(index: Index, month: str) -> list[CellLine]:
    """In `line_order`; `month`: as `CaseMonth` has it."""
    first = datetime.strptime(f"{month} +0000", "%Y-%m %z")
    ends = [first.isoformat(), (first + timedelta(days=31)).replace(day=1).isoformat()]
    return [CellLine(*row) for row in index.rows(f"FROM ({_LISTED}) ORDER BY ALL NULLS LAST", [*ends, *ends])]
