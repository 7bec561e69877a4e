"""The rows of the newest days: what a board shows of single cells and nights is nearly all among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.index.query import Index


@dataclass(frozen=True)
class Recent:
    """The newest rows."""

    sql: str
    """A condition of rows."""
    all: bool
    """Is there no other row?"""


def recent_rows(index: Index, days: int) -> Recent:
    """Those of so many days before the newest result."""
    # Whole days: a question that takes all rows of one second takes them all.
    ((since, is_all),) = index.rows(
        f"""SELECT coalesce(date_trunc('day', max(started) - INTERVAL {days} DAY)::VARCHAR, 'infinity'),
            coalesce(min(started) >= date_trunc('day', max(started) - INTERVAL {days} DAY), true)
        FROM all_records ORDER BY ALL"""  # noqa: S608  a number of this program
    )
    return Recent(f"started >= '{since}'::TIMESTAMPTZ", is_all)
