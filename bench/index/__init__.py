"""The index: the results branch as columns, derived from it, kept in a cache, and asked in SQL.

`open_index` brings it to the tip of the branch; `answers` are the questions that the program itself asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.index.answers import cell_history, stored_records
    from bench.index.nights import nightly_points
    from bench.index.query import Format, Index, export, is_available, open_index, to_json, write_csv
    from bench.index.results import IndexedResults
else:
    __getattr__ = lazy_face(__name__)
