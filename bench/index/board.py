"""The leaderboard from the tally: what `bench.stats.standings` works out of all records, without reading them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.effort import Cost, Effort
from bench.index.counting import SUMS, sum_type
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
    sums = ", ".join(f"sum({name})::{sum_type(name)} AS {name}" for name in SUMS)
    return (
        f"SELECT agent, model, case_id, bool_and(ranked) AS ranked, {sums} FROM counted"  # noqa: S608  names of ours
        " GROUP BY agent, model, case_id ORDER BY agent, model, case_id"
    )


def _standing(entrant: Entrant, rows: Sequence[dict[str, Any]], suite_size: int, versions: int) -> Standing:
    results = {row["case_id"]: _case(row) for row in rows}
    graded = [result for result in results.values() if result.success is not None]
    total = {name: sum(row[name] for row in rows) for name in SUMS}
    return Standing(
        entrant=entrant,
        ranked=all(row["ranked"] for row in rows),
        cases=results,
        suite_size=suite_size,
        success=_estimate([result.success for result in graded if result.success is not None]),
        score=_estimate([result.score for result in graded if result.score is not None]),
        passes=_passes(graded),
        cost=_cost(total),
        effort=_effort(total),
        graded=int(total["graded"]),
        succeeded=int(total["succeeded"]),
        lost=int(total["lost"]),
        versions=versions,
    )


def _case(row: Mapping[str, Any]) -> CountedCase:
    n = int(row["graded"])
    return CountedCase(
        case=row["case_id"],
        records=(),
        success=_mean(float(row["succeeded"]), n),
        score=_mean(row["score_sum"], n),
        cost=_cost(row),
        effort=_effort(row),
        n=n,
        lost_cells=int(row["lost"]),
        successes=int(row["succeeded"]),
    )


def _cost(total: Mapping[str, Any]) -> Cost:
    """As `bench.effort.cost_of`."""
    free, replayed, unknown = total["none_cells"], total["simulated_cells"], int(total["cost_unknown"])
    paid = total["exact_cells"] + total["estimated_cells"]
    if replayed and not paid:
        return Cost(None, False, _mean(total["simulated_usd"] + total["none_usd"], replayed + free), unknown)
    spent = total["exact_usd"] + total["estimated_usd"] + total["none_usd"]
    mean, estimated = _mean(spent, paid + free), total["estimated_cells"] > 0
    return Cost(mean, estimated, _mean(total["simulated_usd"], replayed), unknown)


def _effort(total: Mapping[str, Any]) -> Effort:
    return Effort(
        steps=_mean(total["steps_sum"], total["graded"]),
        seconds=_mean(total["seconds_sum"], total["seconds_known"]),
        input_tokens=_mean(total["input_sum"], total["input_known"]),
        output_tokens=_mean(total["output_sum"], total["output_known"]),
        total_steps=int(total["steps_sum"]),
        total_seconds=total["seconds_sum"],
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


def _mean(total: float, n: int) -> float | None:
    return total / n if n else None
