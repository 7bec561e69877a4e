"""Points of nightly series from the index.

An agent that runs each night has the nights that are asked for among the newest days, and of its years only these are
read. Of an agent that runs less often every row is.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bench.index.answers import instant_of
from bench.index.recent import recent_rows
from bench.stats import Entrant, NightPoints, Words

if TYPE_CHECKING:
    import pyarrow as pa

    from bench.index.query import Index

_Ints: TypeAlias = npt.NDArray[np.int64]
DAYS = 100
"""Ninety nights, and some that failed."""
_VALUES = {"success": "success::INT", "score": "score"}
_SERIES = "profile, agent, model, suite, suite_version"


def nightly_points(index: Index, measure: str, runs: str = "*", most: int = 90) -> NightPoints:
    """As `case_nights` finds them, of each series in its newest `most` runs.

    Only results of the newest version of a case count.
    """
    chosen = [run for (run,) in index.rows("SELECT DISTINCT run FROM cells") if fnmatchcase(run, runs)]
    recent = recent_rows(index, DAYS)
    found = _points(index, measure, chosen, most, recent.sql, ())
    if not recent.all and (rare := _of_few_nights(index, found, most)):
        found = _points(index, measure, chosen, most, recent.sql, rare)
    return found


def _points(index: Index, measure: str, runs: list[str], most: int, recent: str, rare: Collection[str]) -> NightPoints:
    """From the rows that are `recent`, and from all rows of the agents `rare`."""
    is_rare = "list_contains(?::VARCHAR[], agent)"
    found = index.table(
        f"""WITH near AS NOT MATERIALIZED (
            SELECT * FROM cells WHERE {recent} OR {is_rare}
        ), heads AS (
            SELECT run, profile, agent, model, list(DISTINCT agent_digest) AS digests
            FROM near WHERE arm = 'head' GROUP BY ALL
        ), graded AS (
            SELECT {_SERIES}, run, case_id, case_category, case_version, started, {_VALUES[measure]} AS value
            FROM near LEFT JOIN heads USING (run, profile, agent, model)
            WHERE ranked AND outcome = 'graded' AND run IN (SELECT unnest(?::VARCHAR[]))
                AND (arm <> 'base' OR digests IS NULL OR list_contains(digests, agent_digest))
        ), newest AS (
            SELECT {_SERIES}, case_id, arg_max(case_version, started) AS case_version FROM graded GROUP BY ALL
        ), counted AS (
            FROM graded SEMI JOIN newest USING ({_SERIES}, case_id, case_version)
        ), begun_before AS (
            SELECT DISTINCT run FROM cells WHERE NOT {recent}
        ), nights AS (
            SELECT {_SERIES}, run FROM counted
            WHERE run NOT IN (FROM begun_before) OR {is_rare} GROUP BY {_SERIES}, run
            QUALIFY row_number() OVER (PARTITION BY {_SERIES} ORDER BY min(started) DESC, run DESC) <= ?
        )
        SELECT {_SERIES}, run, epoch_us(min(started)) AS first, epoch_us(max(started)) AS last, case_id, case_version,
            avg(value ORDER BY value) AS mean, count(*) AS trials, arg_max(case_category, started) AS category
        FROM counted SEMI JOIN nights USING ({_SERIES}, run) GROUP BY {_SERIES}, run, case_id, case_version
        ORDER BY {_SERIES}, run, case_id, case_version""",  # noqa: S608  names of this program
        [list(rare), runs, list(rare), most],
    )
    return _as_points(found)


def _of_few_nights(index: Index, found: NightPoints, most: int) -> list[str]:
    """The agents with a series that has fewer nights in `found`."""
    every = index.rows(f"SELECT DISTINCT {_SERIES} FROM cells WHERE ranked AND outcome = 'graded' ORDER BY ALL")  # noqa: S608
    nights, _ = _different(found.entrant, found.suite.at, found.version.at, found.run.at)
    series, of_night = _different(*nights[:3])
    counts = np.bincount(of_night, minlength=series.shape[1])
    enough = set()
    for who, suite, version in series.T[counts >= most].tolist():
        it = found.entrants[who]
        enough.add((it.profile, it.agent, it.model, found.suite.texts[suite], found.version.texts[version]))
    return sorted({it[1] for it in every if it not in enough})


def _as_points(found: pa.Table) -> NightPoints:
    """Texts are told from each other as numbers: half a million points say the same few."""
    columns = {name: _words(found[name]) for name in found.column_names if found.schema.field(name).type == "string"}
    different, entrant = _different(*(columns[name].at for name in ("profile", "agent", "model")))
    named = [columns[name].texts for name in ("profile", "agent", "model")]
    return NightPoints(
        entrants=[Entrant(*(texts[at] for texts, at in zip(named, them, strict=True))) for them in different.T],
        entrant=entrant,
        suite=columns["suite"],
        version=columns["suite_version"],
        run=columns["run"],
        first=_numbers(found["first"]),
        last=_numbers(found["last"]),
        case=columns["case_id"],
        case_version=columns["case_version"],
        mean=_numbers(found["mean"]),
        trials=_numbers(found["trials"]),
        category=columns["category"],
        instant=instant_of,
    )


def _different(*columns: _Ints) -> tuple[_Ints, _Ints]:
    """The different rows of `columns`, which hold small numbers, in order as (columns, rows); and each row's place.

    As `numpy.unique` finds them, which compares rows as bytes and takes twenty times as long.
    """
    sizes = tuple(int(column.max(initial=0)) + 1 for column in columns)
    codes, places = np.unique(np.ravel_multi_index(columns, sizes), return_inverse=True)
    return np.stack(np.unravel_index(codes, sizes)), places


def _numbers(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """`to_numpy` would import pandas, for half a second."""
    import pyarrow as pa

    return np.from_dlpack(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


def _words(column: pa.ChunkedArray) -> Words:
    coded = column.combine_chunks().dictionary_encode()
    texts = coded.dictionary.to_pylist()
    order = sorted(range(len(texts)), key=texts.__getitem__)
    places = np.empty(len(texts), dtype=np.int64)
    places[order] = np.arange(len(texts))
    return Words([texts[at] for at in order], places[_numbers(coded.indices)])
