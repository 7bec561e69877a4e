"""The index: the results branch as columns, derived from it, kept in a cache, and asked in SQL.

`open_index` brings it to the tip of the branch; `answers` are the questions that the program itself asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.index.answers import cell_history as cell_history
    from bench.index.answers import nightly_points as nightly_points
    from bench.index.answers import stored_records as stored_records
    from bench.index.query import Format as Format
    from bench.index.query import Index as Index
    from bench.index.query import export as export
    from bench.index.query import is_available as is_available
    from bench.index.query import open_index as open_index
    from bench.index.query import to_json as to_json
    from bench.index.query import write_csv as write_csv
    from bench.index.results import IndexedResults as IndexedResults
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "answers": "cell_history nightly_points stored_records",
            "query": "Format Index export is_available open_index to_json write_csv",
            "results": "IndexedResults",
        },
    )
