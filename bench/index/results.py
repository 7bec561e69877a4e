"""`bench.stats.results.Results` from the index: the same answers as from all records, without reading them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bench.formats.record import Profile
from bench.index.lines import records_at
from bench.index.tally import SUMS, sum_type
from bench.stats import (
    PLACES,
    CaseSeen,
    CheckShares,
    Entrant,
    Findings,
    Measured,
    Standing,
    Suite,
    Tally,
    Trial,
    Version,
    standings_of,
)

if TYPE_CHECKING:
    from bench.index.query import Index

_CURRENT = """
WITH newest AS (
    SELECT profile, case_id,
        arg_max(case_digest, (last_graded IS NOT NULL, coalesce(last_graded, last_started))) AS case_digest
    FROM tally GROUP BY profile, case_id
), members AS (
    SELECT unnest(?::VARCHAR[]) AS profile, unnest(?::VARCHAR[]) AS case_id
), counted AS NOT MATERIALIZED (
    FROM cells SEMI JOIN newest USING (profile, case_id, case_digest) SEMI JOIN members USING (profile, case_id)
)
"""
_WHO = "profile, agent, model"
_SUMS = ", ".join(f"sum({name})::{sum_type(name)} AS {name}" for name in SUMS)


class IndexedResults:
    """`Results`; `suite`: None takes every case with a result for the suite of both profiles."""

    def __init__(self, index: Index, suite: Suite | None = None) -> None:
        self._index = index
        if suite is None:
            known = [case for (case,) in index.rows("SELECT DISTINCT case_id FROM tally")]
            suite = {"mini": known, "full": known}
        self._suite = suite
        members = [(profile, case) for profile, cases in suite.items() for case in cases]
        self._members = [[profile for profile, _ in members], [case for _, case in members]]

    def standings(self) -> list[Standing]:
        counted = _CURRENT.replace("FROM cells SEMI", "FROM tally SEMI")
        select = f"SELECT {_WHO}, case_id, bool_and(ranked) AS ranked, {_SUMS} FROM counted GROUP BY {_WHO}, case_id"  # noqa: S608
        rows = self._index.table(counted + select, self._members).to_pylist()
        tallies = {(_entrant(row), row["case_id"]): _tally(row) for row in rows}
        references = {_entrant(row) for row in rows if not row["ranked"]}
        return standings_of(tallies, references, self._suite)

    def cases(self) -> Mapping[str, CaseSeen]:
        rows = self._index.rows(
            """WITH repeated AS (
                SELECT run FROM records GROUP BY run HAVING min(attempt) <> max(attempt)
            ), different AS (
                SELECT case_id, case_category, case_title, started, cell, outcome
                FROM records WHERE run NOT IN (FROM repeated)
                UNION ALL SELECT case_id, case_category, case_title, started, cell, outcome FROM (
                    SELECT DISTINCT * EXCLUDE (id, path, line, attempt) FROM records WHERE run IN (FROM repeated)
                )
            )
            SELECT case_id, arg_max(case_category, (started, cell)), arg_max(case_title, (started, cell)), count(*),
                count(*) FILTER (outcome <> 'graded')
            FROM different GROUP BY case_id"""
        )
        return {case: CaseSeen(*facts) for case, *facts in rows}

    def updated(self) -> str:
        rows = self._index.rows(
            """SELECT id FROM records
            WHERE finished >= (SELECT date_trunc('second', max(finished)) FROM records)"""
        )
        newest = records_at(self._index, [number for (number,) in rows])
        return max((record.finished for record in newest.values()), default="")

    def versions(self) -> Mapping[Entrant, Sequence[Version]]:
        rows = self._rows(
            f"""SELECT {_WHO}, agent_digest, arg_max(agent_commit, (case_id, started, run, cell))
            FROM counted GROUP BY {_WHO}, agent_digest ORDER BY min((case_id, started, run, cell))"""  # noqa: S608
        )
        found: dict[Entrant, list[Version]] = defaultdict(list)
        for profile, agent, model, digest, commit in rows:
            found[Entrant(profile, agent, model)].append(Version(digest, commit))
        return found

    def findings(self) -> Mapping[tuple[Entrant, str], Findings]:
        notes: dict[tuple[Any, ...], dict[str, int]] = defaultdict(dict)
        for column in ("failure_modes", "flags"):
            for *key, name, times in self._rows(
                f"""SELECT {_WHO}, case_id, name, count(*)
                FROM (SELECT {_WHO}, case_id, unnest({column}) AS name FROM counted)
                GROUP BY {_WHO}, case_id, name ORDER BY name"""  # noqa: S608
            ):
                notes[(column, *key)][name] = times
        rows = self._rows(
            f"""SELECT {_WHO}, case_id, count(*) FILTER (len(flags) > 0), sum(len(claims))::BIGINT,
                sum(overclaims)::BIGINT
            FROM counted GROUP BY {_WHO}, case_id"""  # noqa: S608
        )
        return {
            (Entrant(*key[:3]), key[3]): Findings(notes[("failure_modes", *key)], notes[("flags", *key)], *counts)
            for *key, counts in ((*row[:4], row[4:]) for row in rows)
        }

    def checks(self) -> Mapping[tuple[Profile, str], Sequence[CheckShares]]:
        rows = self._rows(
            f""", judged AS (
                SELECT {_WHO}, case_id, started, run, cell, id, generate_subscripts(checks, 1) AS place,
                    unnest(checks) AS it
                FROM counted WHERE outcome = 'graded'
            )
            SELECT profile, case_id, it.check_id, agent, model, count(*) FILTER (it.value >= 1) / count(*),
                max({{'started': started, 'run': run, 'cell': cell, 'place': place, 'id': id}}) AS newest
            FROM judged GROUP BY profile, case_id, it.check_id, agent, model"""  # noqa: S608
        )
        shares: dict[tuple[Profile, str, str], dict[Entrant, float]] = defaultdict(dict)
        newest: dict[tuple[Profile, str, str], tuple[Any, ...]] = {}
        for profile, case, name, agent, model, share, last in rows:
            key, when = (profile, case, name), tuple(last.values())
            shares[key][Entrant(profile, agent, model)] = share
            newest[key] = max(when, newest.get(key, when))
        records = records_at(self._index, {when[-1] for when in newest.values()})
        found: dict[tuple[Profile, str], list[CheckShares]] = defaultdict(list)
        for key in sorted(shares, key=lambda key: (newest[key][-2], key[2])):
            *_, place, number = newest[key]
            found[key[:2]].append(CheckShares(records[number].checks[place - 1], shares[key]))
        return found

    def metrics(self) -> Mapping[tuple[Profile, str], Sequence[Measured]]:
        rows = self._rows(
            f"""SELECT case_id, {_WHO}, it.name, it.unit, avg(it.value), min(it.value), max(it.value), count(*)
            FROM (SELECT {_WHO}, case_id, unnest(metrics) AS it FROM counted WHERE outcome = 'graded')
            GROUP BY ALL"""  # noqa: S608
        )
        found: dict[tuple[Profile, str], list[Measured]] = defaultdict(list)
        for case, profile, agent, model, *measured in rows:
            found[profile, case].append(Measured(Entrant(profile, agent, model), *measured))
        return found

    def trials(self, of_case: int, of_entrant: int) -> Sequence[Trial]:
        rows = self._rows(
            f""", wanted AS (
                SELECT id FROM records LEFT JOIN (
                    SELECT case_id, {_since(of_case)} FROM cells GROUP BY case_id
                ) USING (case_id) WHERE since IS NULL OR started >= since
                UNION SELECT id FROM counted JOIN (
                    SELECT {_WHO}, case_id, {_since(of_entrant)} FROM counted GROUP BY {_WHO}, case_id
                ) USING ({_WHO}, case_id) WHERE since IS NULL OR started >= since
            )
            SELECT id, id IN (SELECT id FROM cells), (profile, case_id, case_digest) IN (FROM newest)
            FROM records SEMI JOIN wanted USING (id)"""  # noqa: S608
        )
        records = records_at(self._index, [number for number, _, _ in rows])
        return [Trial(records[number], kept, current) for number, kept, current in rows]

    def _rows(self, select: str) -> list[tuple[Any, ...]]:
        """Of a SELECT from `counted`, the rows that count in the standings."""
        return self._index.rows(_CURRENT + select, self._members)


def _since(most: int) -> str:
    """The second in which the `most`-th newest started, NULL where there are fewer.

    Records order what starts within one second by their text, which is not here: so all of that second are taken.
    """
    return f"date_trunc('second', max(started, {most})[{most}]) AS since"


def _entrant(row: Mapping[str, Any]) -> Entrant:
    return Entrant(row["profile"], row["agent"], row["model"])


def _tally(row: Mapping[str, Any]) -> Tally:
    return Tally(**{name: _whole(row[name]) for name in SUMS})


def _whole(value: int | Decimal) -> int:
    """Of a sum the number of its last places: by whole numbers, since Python rounds decimals to 28 digits."""
    numerator, denominator = value.as_integer_ratio()
    return numerator if isinstance(value, int) else numerator * 10**PLACES // denominator
