"""Which results have a page of their own: the newest of each case, and the last of each agent at each case.

They are looked for among the newest days. Of a case that was run too rarely for that, all rows are.
"""

from __future__ import annotations

from collections.abc import Collection

from bench.index.tally import literal
from bench.stats import MOST_STOPPED

DAYS = 8
"""A night of each day, or of a week."""
WHO = "profile, agent, model"


_ROUND = f"{WHO}, ranked, run, trial"
REPEATS = f""", met AS (
    SELECT {WHO}, ranked, case_id, min(started) AS first FROM counted WHERE outcome = 'graded'
    GROUP BY {WHO}, ranked, case_id
), rounds AS (
    SELECT {_ROUND},
        coalesce(list(DISTINCT case_id) FILTER (outcome NOT IN ('skipped', 'interrupted')), []) AS tried,
        coalesce(list(DISTINCT case_id) FILTER (outcome = 'interrupted'), []) AS stopped,
        count(*) FILTER (outcome = 'interrupted') <= {MOST_STOPPED} * count(*) AS few
    FROM counted GROUP BY {_ROUND}
), chosen AS (
    SELECT {_ROUND}, min(first) AS since FROM rounds JOIN met USING ({WHO}, ranked)
    WHERE NOT list_contains(tried, case_id) AND NOT (few AND list_contains(stopped, case_id)) GROUP BY {_ROUND}
), repeats AS (
    SELECT counted.* FROM counted JOIN chosen USING ({_ROUND}) JOIN met USING ({WHO}, ranked, case_id)
    WHERE first < started AND since < started
)"""  # noqa: S608  names of this program
"""Goes on a WITH of `counted`: as `bench.stats.entrants.repeats` finds them."""


def rarely_run(recent: str, of_case: int, of_entrant: int) -> str:
    """Goes on a WITH of `counting`, `members` and `counted`: the cases of which the `recent` rows are too few."""
    return f""", of_case AS (
            SELECT case_id, sum(cells) AS n FROM listed GROUP BY case_id
        ), near_of_case AS (
            SELECT case_id, count(*) AS n FROM records WHERE {recent} GROUP BY case_id
        ), near_cells AS (
            SELECT case_id, count(*) AS cells FROM cells WHERE {recent} GROUP BY case_id
        ), of_entrant AS (
            SELECT {WHO}, case_id, sum(cells) AS n
            FROM tally SEMI JOIN counting USING (profile, case_id, case_version)
            SEMI JOIN members USING (profile, case_id)
            GROUP BY {WHO}, case_id
        ), near_of_entrant AS (
            SELECT {WHO}, case_id, count(*) AS near FROM counted WHERE {recent} GROUP BY {WHO}, case_id
        )
        SELECT case_id FROM of_case LEFT JOIN near_of_case USING (case_id, n) LEFT JOIN near_cells USING (case_id)
        WHERE near_of_case.n IS NULL AND coalesce(cells, 0) < {of_case}
        UNION SELECT case_id FROM of_entrant LEFT JOIN near_of_entrant USING ({WHO}, case_id)
        WHERE coalesce(near, 0) < least(n, {of_entrant}) ORDER BY case_id"""  # noqa: S608  names of this program


def near(recent: str, rare: Collection[str]) -> str:
    """A condition: `recent` rows, and all of the cases `rare`."""
    return f"({recent} OR case_id IN ({', '.join(map(literal, rare))}))" if rare else recent


def newest_trials(near: str, of_case: int, of_entrant: int) -> str:
    """Goes on the same WITH: id, whether its attempt counts, and whether its version of the case counts."""
    return f""", near AS NOT MATERIALIZED (
            FROM cells WHERE {near}
        ), near_counted AS NOT MATERIALIZED (
            FROM counted WHERE {near}
        ), near_records AS NOT MATERIALIZED (
            FROM records WHERE {near}
        ), wanted AS (
            SELECT id FROM near_records LEFT JOIN (
                SELECT case_id, {_since(of_case)} FROM near GROUP BY case_id
            ) USING (case_id) WHERE since IS NULL OR started >= since
            UNION SELECT id FROM near_counted JOIN (
                SELECT {WHO}, case_id, {_since(of_entrant)} FROM near_counted GROUP BY {WHO}, case_id
            ) USING ({WHO}, case_id) WHERE since IS NULL OR started >= since
        )
        SELECT id, id IN (SELECT id FROM near), (profile, case_id, case_version) IN (FROM counting)
        FROM near_records SEMI JOIN wanted USING (id) ORDER BY id"""  # noqa: S608  names of this program


def _since(most: int) -> str:
    """The second in which the `most`-th newest started, NULL where there are fewer.

    Records order what starts within one second by their text, which is not here: so all of that second are taken.
    """
    return f"date_trunc('second', max(started, {most})[{most}]) AS since"
