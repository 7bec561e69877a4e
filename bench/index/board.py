"""The leaderboard from the tally: what `bench.stats.standings` works out of all records, without reading them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.effort import Cost, Effort
from bench.index.counting import SUMS
from bench.record import Profile, Record
from bench.stats.intervals import Interval, clustered, wilson
from bench.stats.passk import pass_at, pass_hat
from bench.stats.standing import KS, CaseResult, Entrant, Estimate, Passes, Standing

if TYPE_CHECKING:
    from bench.index.query import Index

_CURRENT = """
WITH newest AS (
    SELECT case_id, arg_max(case_digest, (last_graded IS NOT NULL, coalesce(last_graded, last_started))) AS case_digest
    FROM tally WHERE profile = ? GROUP BY case_id
), counted AS (
    FROM tally SEMI JOIN newest USING (case_id, case_digest)
    WHERE profile = ? AND case_id IN (SELECT unnest(?::VARCHAR[]))
)
"""


_VERSIONS = "SELECT agent, model, count(DISTINCT agent_digest) FILTER (graded > 0) FROM counted GROUP BY agent, model"


@dataclass(frozen=True, kw_only=True)
class CountedCase(CaseResult):
    """A case known by its counts; it has no records to show."""

    n: int
    """Graded trials."""
    lost_cells: int
    successes: int

    @property
    def graded(self) -> list[Record]:
        raise NotImplementedError("the index counts records and does not hold them")

    @property
    def lost(self) -> int:
        return self.lost_cells

    @property
    def succeeded(self) -> int:
        return self.successes

    @property
    def interval(self) -> Interval | None:
        return None if self.success is None else wilson(self.success, self.n)


def indexed_standings(index: Index, suite: Mapping[Profile, Collection[str]]) -> list[Standing]:
    """As `bench.stats.standings` over all records that count; the cases are `CountedCase`."""
    found = []
    for profile, names in suite.items():
        groups: dict[Entrant, list[dict[str, Any]]] = defaultdict(list)
        given = [profile, profile, sorted(names)]
        for row in index.table(f"{_CURRENT} {_by_case()}", given).to_pylist():
            groups[Entrant(profile, row["agent"], row["model"])].append(row)
        versions = {Entrant(profile, agent, model): n for agent, model, n in index.rows(_CURRENT + _VERSIONS, given)}
        found += [_standing(who, rows, len(names), versions[who]) for who, rows in groups.items()]
    return sorted(found, key=lambda standing: standing.entrant)


def all_cases(index: Index) -> list[str]:
    """Every case with a record that counts."""
    return [case for (case,) in index.rows("SELECT DISTINCT case_id FROM tally ORDER BY case_id")]


def _by_case() -> str:
    sums = ", ".join(f"sum({name}) AS {name}" for name in SUMS)
    return (
        f"SELECT agent, model, case_id, bool_and(ranked) AS ranked, {sums} FROM counted"  # noqa: S608  names of ours
        " GROUP BY agent, model, case_id ORDER BY agent, model, case_id"
    )


def _standing(entrant: Entrant, everything: Sequence[dict[str, Any]], suite_size: int, versions: int) -> Standing:
    results = {row["case_id"]: _case(row["case_id"], [row]) for row in everything}
    graded = [result for result in results.values() if result.success is not None]
    return Standing(
        entrant=entrant,
        ranked=all(row["ranked"] for row in everything),
        cases=results,
        suite_size=suite_size,
        success=_estimate([result.success for result in graded if result.success is not None]),
        score=_estimate([result.score for result in graded if result.score is not None]),
        passes=_passes(graded),
        cost=_cost(everything),
        effort=_effort(everything),
        graded=_total(everything, "graded"),
        succeeded=_total(everything, "succeeded"),
        lost=_total(everything, "lost"),
        versions=versions,
    )


def _case(case: str, rows: Sequence[dict[str, Any]]) -> CountedCase:
    n = _total(rows, "graded")
    return CountedCase(
        case=case,
        records=(),
        success=_total(rows, "succeeded") / n if n else None,
        score=_sum(rows, "score_sum") / n if n else None,
        cost=_cost(rows),
        effort=_effort(rows),
        n=n,
        lost_cells=_total(rows, "lost"),
        successes=_total(rows, "succeeded"),
    )


def _cost(rows: Sequence[dict[str, Any]]) -> Cost:
    """As `bench.effort.cost_of`."""
    cells = {name: _total(rows, f"{name}_cells") for name in ("none", "exact", "estimated", "simulated")}
    usd = {name: _sum(rows, f"{name}_usd") for name in cells}
    paid, replayed = cells["exact"] + cells["estimated"], cells["simulated"]
    unknown = _total(rows, "cost_unknown")
    if replayed and not paid:
        return Cost(None, False, _mean(usd["simulated"] + usd["none"], replayed + cells["none"]), unknown)
    spent = usd["exact"] + usd["estimated"] + usd["none"]
    return Cost(_mean(spent, paid + cells["none"]), cells["estimated"] > 0, _mean(usd["simulated"], replayed), unknown)


def _effort(rows: Sequence[dict[str, Any]]) -> Effort:
    steps, seconds = _sum(rows, "steps_sum"), _sum(rows, "seconds_sum")
    return Effort(
        steps=_mean(steps, _total(rows, "graded")),
        seconds=_mean(seconds, _total(rows, "seconds_known")),
        input_tokens=_mean(_sum(rows, "input_sum"), _total(rows, "input_known")),
        output_tokens=_mean(_sum(rows, "output_sum"), _total(rows, "output_known")),
        total_steps=int(steps),
        total_seconds=seconds,
    )


def _passes(results: Sequence[CountedCase]) -> list[Passes]:
    found = []
    for k in KS:
        at = _estimate([value for it in results if (value := pass_at(it.n, it.successes, k)) is not None])
        hat = _estimate([value for it in results if (value := pass_hat(it.n, it.successes, k)) is not None])
        if at is not None and hat is not None:
            found.append(Passes(k, at, hat))
    return found


def _estimate(means: Sequence[float]) -> Estimate | None:
    return Estimate(sum(means) / len(means), len(means), clustered(means)) if means else None


def _total(rows: Sequence[dict[str, Any]], name: str) -> int:
    return int(sum(row[name] for row in rows))


def _sum(rows: Sequence[dict[str, Any]], name: str) -> float:
    return float(sum(row[name] for row in rows))


def _mean(total: float, n: int) -> float | None:
    return total / n if n else None
