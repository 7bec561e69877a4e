"""`bench.stats.Results` from the index: the same answers as from all records, reading only the lines that are shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bench.formats.case_metric import Scale
from bench.formats.judge_version import JUDGE
from bench.formats.record import Profile, case_version
from bench.index.answers import instant_of
from bench.index.listing import case_months, lines_of_month
from bench.index.nights import nightly_points
from bench.index.recent import recent_rows
from bench.index.summaries import REPEATED
from bench.index.tally import ADDED, SUMS, tally_select
from bench.index.trials import DAYS as RECENT_DAYS
from bench.index.trials import REPEATS, WHO, near, newest_trials, rarely_run
from bench.index.whole_records import records_at
from bench.stats import (
    DAYS,
    PLACES,
    CaseMonth,
    CasePeriod,
    CaseSeen,
    CellLine,
    CheckShares,
    Conditions,
    Entrant,
    Findings,
    Improvement,
    Installed,
    Measured,
    NightPoints,
    Spent,
    Standing,
    Suite,
    Tally,
    TokenUse,
    Trial,
    Version,
    improvement_of,
    standings_of,
    suite_of,
    unknown_case,
)

if TYPE_CHECKING:
    from bench.index.query import Index

_CURRENT = f"""
WITH installed AS (
    SELECT unnest(?::VARCHAR[]) AS case_id, unnest(?::VARCHAR[]) AS own
), versions_met AS (
    SELECT profile, case_id, case_version, count(DISTINCT agent) FILTER (graded > 0) AS agents,
        max(last_graded) AS graded, max(last_started) AS tried
    FROM tally GROUP BY profile, case_id, case_version
), counting AS (
    SELECT profile, case_id, arg_max(case_version, (
        graded IS NOT NULL,
        coalesce(starts_with(case_version, own)::INT + (case_version = own || '{JUDGE}')::INT, 0),
        agents, coalesce(graded, tried), case_version
    )) AS case_version
    FROM versions_met LEFT JOIN installed USING (case_id) GROUP BY profile, case_id
), members AS (
    SELECT unnest(?::VARCHAR[]) AS profile, unnest(?::VARCHAR[]) AS case_id
), counted AS NOT MATERIALIZED (
    FROM cells SEMI JOIN counting USING (profile, case_id, case_version) SEMI JOIN members USING (profile, case_id)
)
"""  # noqa: S608  names of this program
"""`bench.stats.entrants.counting_versions`, and what counts."""


_PERIODS = f"""dated AS (
    SELECT *, CASE WHEN date_diff('day', day, (SELECT max(day) FROM counted)) < {DAYS}
        THEN day ELSE date_trunc('week', day)::DATE END AS since FROM counted
)"""  # noqa: S608
"""`bench.stats.periods.period_of` each day."""


_STANDING = f"{WHO}, ranked, case_id"
_SCALE: Mapping[str, str] = {
    "name": "headline",
    "direction": "headline_direction",
    "unit": "headline_unit",
    **{name: name for name in ("baseline", "target", "bar")},
}
"""Of a row, by field of `Scale`."""


class IndexedResults:
    """`Results` of an index; `suite`: None takes every case with a result, in each profile."""

    def __init__(self, index: Index, suite: Suite | None = None, installed: Installed = unknown_case) -> None:
        self._index = index
        if suite is None:
            profiles = "list_sort(list(DISTINCT profile))"
            rows = index.rows(f"SELECT case_id, {profiles} FROM tally GROUP BY case_id ORDER BY case_id")  # noqa: S608
            suite = suite_of(rows)
        self._suite = suite
        members = [(profile, case) for profile, cases in suite.items() for case in cases]
        several = "SELECT case_id FROM tally GROUP BY ALL HAVING count(DISTINCT case_version) > 1 ORDER BY case_id"
        own = {case: case_version(installed(case), "") for (case,) in index.rows(several)}
        self._given = [list(own), list(own.values()), [it for it, _ in members], [case for _, case in members]]
        """The values of `_CURRENT`."""

    def standings(self) -> list[Standing]:
        counted = _CURRENT.replace("FROM cells SEMI", "FROM tally SEMI")
        select = f"SELECT {_STANDING}, {ADDED} FROM counted GROUP BY {_STANDING} ORDER BY {_STANDING}"  # noqa: S608
        repeated = f"{REPEATS} {tally_select('repeats', _STANDING)} ORDER BY {_STANDING}"
        return standings_of(self._tallies(counted + select), self._suite, self._tallies(_CURRENT + repeated))

    def _tallies(self, select: str) -> dict[tuple[Entrant, bool, str], Tally]:
        return {
            (Entrant(row["profile"], row["agent"], row["model"]), row["ranked"], row["case_id"]): Tally(
                **{name: _whole(row[name]) for name in SUMS}
            )
            for row in self._index.table(select, self._given).to_pylist()
        }

    def cases(self) -> Mapping[str, CaseSeen]:
        rows = self._index.rows(
            f"""WITH different AS (
                SELECT case_id, named, cells, ungraded FROM listed WHERE run NOT IN ({REPEATED})
                UNION ALL SELECT case_id,
                    {{'started': started, 'cell': cell, 'category': case_category, 'title': case_title}},
                    1, (outcome <> 'graded')::BIGINT
                FROM (SELECT DISTINCT * EXCLUDE (id, path, line, attempt) FROM records WHERE run IN ({REPEATED}))
            )
            SELECT case_id, max(named).category, max(named).title, sum(cells)::BIGINT, sum(ungraded)::BIGINT
            FROM different GROUP BY case_id ORDER BY case_id"""  # noqa: S608
        )
        return {case: CaseSeen(*facts) for case, *facts in rows}

    def versions(self) -> Mapping[Entrant, Sequence[Version]]:
        rows = self._rows(
            f"""SELECT {WHO}, agent_digest, arg_max(last.commit, (case_id, last))
            FROM counted GROUP BY {WHO}, agent_digest ORDER BY min((case_id, first))""",  # noqa: S608
            "versions",
        )
        found: dict[Entrant, list[Version]] = defaultdict(list)
        for profile, agent, model, digest, commit in rows:
            found[Entrant(profile, agent, model)].append(Version(digest, commit))
        return found

    def conditions(self) -> Mapping[Entrant, Conditions]:
        rows = self._rows(
            f"""SELECT {WHO}, list_sort(list(DISTINCT sandbox)), list_sort(list(DISTINCT machine))
            FROM counted WHERE outcome = 'graded' GROUP BY {WHO} ORDER BY {WHO}"""  # noqa: S608
        )
        return {Entrant(*who): Conditions(sandboxes, machines) for *who, sandboxes, machines in rows}

    def findings(self) -> Mapping[tuple[Entrant, str], Findings]:
        notes: dict[tuple[Entrant, str], dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for *who, case, kind, name, times in self._rows(
            f"""SELECT {WHO}, case_id, kind, name, sum(times)::BIGINT FROM counted
            GROUP BY {WHO}, case_id, kind, name ORDER BY {WHO}, case_id, kind, name""",  # noqa: S608
            "notes",
        ):
            notes[Entrant(*who), case][kind][name] = times
        rows = self._rows(
            f"""SELECT {WHO}, case_id, sum(flagged)::BIGINT, sum(claims)::BIGINT, sum(overclaims)::BIGINT,
                epoch_us(max(last)) FROM counted GROUP BY {WHO}, case_id ORDER BY {WHO}, case_id""",  # noqa: S608
            "course",
        )
        found = {}
        for *who, case, flagged, claims, overclaims, last in rows:
            key = Entrant(*who), case
            own, ended = notes[key], f"{instant_of(last)[:19]}Z"
            facts = own["mode"], own["flag"], flagged, claims, overclaims
            found[key] = Findings(*facts, stops=own["stop"], last=ended)
        return found

    def checks(self) -> Mapping[tuple[Profile, str], Sequence[CheckShares]]:
        rows = self._rows(
            f""", shares AS (
                SELECT {WHO}, case_id, check_id, sum(passed)::BIGINT / sum(times)::BIGINT,
                    max(max(last)) OVER (PARTITION BY profile, case_id, check_id) AS last
                FROM counted GROUP BY {WHO}, case_id, check_id
            )
            SELECT * EXCLUDE (last), {{'place': last.place, 'id': last.id}} AS last
            FROM shares ORDER BY last.place, check_id, {WHO}, case_id""",  # noqa: S608
            "judged",
        )
        records = records_at(self._index, {last["id"] for *_, last in rows})
        found: dict[tuple[Profile, str], dict[str, CheckShares]] = defaultdict(dict)
        for profile, agent, model, case, name, share, last in rows:
            check = records[last["id"]].checks[last["place"] - 1]
            row = found[profile, case].setdefault(name, CheckShares(check, {}))
            row.shares[Entrant(profile, agent, model)] = share
        return {key: list(by_name.values()) for key, by_name in found.items()}

    def metrics(self) -> Mapping[tuple[Profile, str], Sequence[Measured]]:
        rows = self._rows(
            f"""SELECT case_id, {WHO}, it.name, it.unit, list(it.value)
            FROM (SELECT {WHO}, case_id, unnest(metrics) AS it FROM counted WHERE outcome = 'graded')
            GROUP BY ALL ORDER BY case_id, {WHO}, it.name, it.unit"""  # noqa: S608
        )
        found: dict[tuple[Profile, str], list[Measured]] = defaultdict(list)
        for case, profile, agent, model, name, unit, them in rows:
            found[profile, case].append(Measured.of(Entrant(profile, agent, model), name, unit, them))
        return found

    def improvements(self) -> Sequence[Improvement]:
        held = ", ".join(f"'{name}': {column}" for name, column in _SCALE.items())
        rows = self._rows(
            f"""SELECT {WHO}, case_id, arg_max({{{held}}}, (started, cell)),
                list({{'it': headline_value}} ORDER BY headline_value), count(*) FILTER (success)
            FROM counted WHERE outcome = 'graded' AND headline IS NOT NULL GROUP BY {WHO}, case_id ORDER BY ALL"""  # noqa: S608
        )
        return [
            improvement_of(Entrant(*who), case, Scale(**scale), [it["it"] for it in values], succeeded)
            for *who, case, scale, values, succeeded in rows
        ]

    def nights(self, measure: str) -> NightPoints:
        return nightly_points(self._index, measure)

    def case_periods(self) -> Sequence[CasePeriod]:
        ((newest,),) = self._rows("SELECT max(last_started)::DATE FROM counted ORDER BY ALL", "tally")
        if newest is None:
            return []
        # All of a week, or its days one by one: only the weeks before the one in which days begin are whole.
        first_day = newest - timedelta(days=DAYS - 1)
        first_week = first_day - timedelta(days=first_day.weekday())
        since = f"CASE WHEN started::DATE >= '{first_day}' THEN started::DATE ELSE '{first_week}'::DATE END"
        rows = self._rows(
            f""", periods AS (
                SELECT {WHO}, case_id, {since} AS since, success::BIGINT AS succeeded, 1 AS graded
                FROM counted WHERE ranked AND outcome = 'graded' AND started >= '{first_week}'::TIMESTAMPTZ
                UNION ALL SELECT {WHO}, case_id, week, succeeded, graded FROM weeks
                SEMI JOIN counting USING (profile, case_id, case_version) SEMI JOIN members USING (profile, case_id)
                WHERE week < '{first_week}'
            ), shares AS (
                SELECT profile, case_id, since, sum(succeeded) / sum(graded) AS share, sum(graded) AS n
                FROM periods GROUP BY since, case_id, {WHO}
            )
            SELECT profile, case_id, since::VARCHAR, avg(share ORDER BY share), count(*), sum(n)::BIGINT
            FROM shares GROUP BY profile, case_id, since ORDER BY ALL"""  # noqa: S608
        )
        return [
            CasePeriod(profile, case, since, round(success, 6), agents, cells)
            for profile, case, since, success, agents, cells in rows
        ]

    def token_use(self) -> Mapping[Entrant, TokenUse]:
        sums = ", ".join(
            f"sum({it})::BIGINT" for it in ("uncached", "cache_read", "cache_write", "output", "reasoning")
        )
        rows = self._rows(
            f"""SELECT {WHO}, sum(metered)::BIGINT, {sums} FROM counted WHERE metered > 0
            GROUP BY {WHO} ORDER BY {WHO}""",  # noqa: S608
            "course",
        )
        return {Entrant(*row[:3]): TokenUse(*row[3:]) for row in rows}

    def spending(self) -> Sequence[Spent]:
        rows = self._rows(
            f""", {_PERIODS}
            SELECT profile, since::VARCHAR, sum(cells)::BIGINT, sum(paid)::BIGINT, sum(simulated)::BIGINT,
                sum(unknown)::BIGINT
            FROM dated GROUP BY profile, since ORDER BY ALL""",  # noqa: S608
            "days",
        )
        return [Spent(*row) for row in rows]

    def trials(self, of_case: int, of_entrant: int) -> Sequence[Trial]:
        recent = recent_rows(self._index, RECENT_DAYS)
        rare = [] if recent.all else self._rows(rarely_run(recent.sql, of_case, of_entrant))
        rows = self._rows(newest_trials(near(recent.sql, [case for (case,) in rare]), of_case, of_entrant))
        records = records_at(self._index, [number for number, _, _ in rows])
        return [Trial(records[number], kept, current) for number, kept, current in rows]

    def case_months(self) -> Sequence[CaseMonth]:
        return case_months(self._index)

    def lines_of_month(self, month: str) -> Sequence[CellLine]:
        return lines_of_month(self._index, month)

    def _rows(self, select: str, summary: str = "cells") -> list[tuple[Any, ...]]:
        """Of a SELECT from `counted`, the rows that count in the standings: cells, or those of a summary of them.

        Each has an order: DuckDB answers with several threads, and a page is kept as long as its facts read the same.
        """
        return self._index.rows(_CURRENT.replace("FROM cells SEMI", f"FROM {summary} SEMI") + select, self._given)


def _whole(value: int | Decimal) -> int:
    """Of a sum the number of its last places: by whole numbers, since Python rounds decimals to 28 digits."""
    numerator, denominator = value.as_integer_ratio()
    return numerator if isinstance(value, int) else numerator * 10**PLACES // denominator
