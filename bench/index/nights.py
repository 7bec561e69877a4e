"""The points of nightly series from the index: what `bench.stats.series.case_nights` makes of all records."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bench.index.light import instant_of
from bench.stats.series import CaseNight
from bench.stats.standing import Entrant

if TYPE_CHECKING:
    from bench.index.query import Index

_VALUES = {"success": "success::INT", "score": "score"}
_SERIES = "profile, agent, model, suite, suite_version"


def indexed_nights(index: Index, measure: str, runs: str = "*", most: int = 90) -> list[CaseNight]:
    """Of each series the points of its newest `most` runs, where only results of the newest version of a case count."""
    chosen = [run for (run,) in index.rows("SELECT DISTINCT run FROM cells") if fnmatchcase(run, runs)]
    rows = index.rows(
        f"""WITH graded AS NOT MATERIALIZED (
            SELECT {_SERIES}, run, case_id, case_digest, started, {_VALUES[measure]} AS value
            FROM cells WHERE ranked AND outcome = 'graded' AND run IN (SELECT unnest(?::VARCHAR[]))
        ), newest AS (
            SELECT {_SERIES}, case_id, arg_max(case_digest, started) AS case_digest FROM graded GROUP BY ALL
        ), counted AS NOT MATERIALIZED (
            FROM graded SEMI JOIN newest USING ({_SERIES}, case_id, case_digest)
        ), nights AS (
            SELECT {_SERIES}, run FROM counted GROUP BY {_SERIES}, run
            QUALIFY row_number() OVER (PARTITION BY {_SERIES} ORDER BY min(started) DESC, run DESC) <= ?
        )
        SELECT {_SERIES}, run, epoch_us(min(started)) AS first, epoch_us(max(started)) AS last, case_id, case_digest,
            avg(value), count(*)
        FROM counted SEMI JOIN nights USING ({_SERIES}, run) GROUP BY {_SERIES}, run, case_id, case_digest
        ORDER BY ALL""",  # noqa: S608  names of this program
        [chosen, most],
    )
    return [
        CaseNight(
            Entrant(profile, agent, model), suite, version, run, instant_of(first), instant_of(last), case, digest,
            mean, trials,
        )
        for profile, agent, model, suite, version, run, first, last, case, digest, mean, trials in rows
    ]  # fmt: skip
