"""The leaderboard from the tally: what `bench.stats.standings` works out of all records, without reading them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from bench.formats.record import (
    AgentRef,
    CaseRef,
    LimitsSet,
    Machine,
    ModelUsage,
    Phase,
    Profile,
    Provenance,
    Record,
    Tokens,
)
from bench.index.tally import SUMS, sum_type
from bench.plan import NEWEST, Measured, model_key
from bench.stats import (
    KS,
    CaseNight,
    CaseResult,
    Cost,
    Effort,
    Entrant,
    Estimate,
    Interval,
    Passes,
    Standing,
    clustered,
    pass_at,
    pass_hat,
    wilson,
)

if TYPE_CHECKING:
    from bench.index.query import Index
    from bench.stats import Filters


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
_VALUES = {"success": "success::INT", "score": "score"}
_SERIES = "profile, agent, model, suite, suite_version"
_COLUMNS = (
    "run, cell, agent, agent_digest, agent_commit, ranked, case_id, case_category, case_title, case_digest, models,"
    " profile, trial, outcome, success, score, cost_usd, cost_status, steps, epoch_us(started) AS started,"
    " epoch_us(finished) AS finished, agent_seconds, input_tokens, output_tokens, machine, limits, suite,"
    " suite_version, bench_version"
)
_ABSENT = (
    *("judge_seed", "stop_reason", "cause", "error", "checks", "metrics", "claims", "overclaims", "failure_modes"),
    *("flags", "limits_hit", "artifacts", "tries"),
)


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
    """As `bench.stats.effort.cost_of`."""
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


def cell_history(index: Index) -> Measured:
    """Everything the index can tell; for `bench.plan.estimate.History.of`."""
    keys = {text: model_key(json.loads(text)) for (text,) in index.rows("SELECT DISTINCT models FROM cells")}
    newest = f"max_by({{'s': seconds, 'c': cost_usd}}, (started, cell), {NEWEST})"
    exact = index.rows(
        f"""SELECT agent, models, case_id, profile, list_median(list_transform(found, lambda x: x.s)),
            list_avg(list_transform(found, lambda x: x.c))
        FROM (SELECT agent, models, case_id, profile, {newest} AS found
              FROM cells WHERE outcome = 'graded' GROUP BY ALL)"""  # noqa: S608
    )
    cases = index.rows(
        f"""SELECT case_id, profile, list_median(list_transform({newest}, lambda x: x.s))
        FROM cells WHERE outcome = 'graded' GROUP BY ALL"""  # noqa: S608
    )
    share = "seconds / (json_extract(limits, '$.agent_s')::DOUBLE + json_extract(limits, '$.grade_s')::DOUBLE)"
    shares = index.rows(
        f"""SELECT agent, models, list_avg(max_by({share}, (started, cell), {NEWEST}))
        FROM cells WHERE outcome = 'graded' GROUP BY ALL"""  # noqa: S608
    )
    graded = index.rows(
        "SELECT DISTINCT agent_digest, models, case_digest, profile, trial FROM cells WHERE outcome = 'graded'"
    )
    return Measured(
        exact={(agent, keys[models], case, profile): (s, c) for agent, models, case, profile, s, c in exact},
        cases={(case, profile): seconds for case, profile, seconds in cases},
        shares={(agent, keys[models]): mean for agent, models, mean in shares},
        graded={(agent, keys[models], case, profile, trial) for agent, models, case, profile, trial in graded},
    )


def nightly_points(index: Index, measure: str, runs: str = "*", most: int = 90) -> list[CaseNight]:
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


def stored_records(index: Index, reference: str, filters: Filters) -> list[Record]:
    """What `bench.stats.choice.choose` needs to know of the stored records to find those of `reference`.

    The rows of a run of that name; of an agent of that name those of the version that is meant, and the newest row of
    every other version, so that it can be told what else there is.
    """
    kind, _, rest = reference.partition(":")
    name = rest if kind in ("run", "agent") else reference
    agent, _, version = name.partition("@")
    bare = version.removeprefix("sha256:")
    rows = index.table(
        f"""WITH own AS (SELECT agent_digest, agent_commit, max(started) AS last,
                max(started) FILTER (? IN ('', model) AND ? IN ('', profile) AND ? IN ('', suite)) AS wanted
            FROM cells WHERE agent = ? GROUP BY ALL
        ), meant AS (
            SELECT agent_digest, agent_commit FROM own WHERE CASE WHEN ? = ''
                THEN agent_digest =
                    (SELECT arg_max(agent_digest, (wanted IS NOT NULL, coalesce(wanted, last))) FROM own)
                ELSE starts_with(agent_commit, ?) OR starts_with(agent_digest[8:], ?) END
        )
        SELECT {_COLUMNS} FROM cells WHERE run = ?
        UNION ALL BY NAME
        SELECT {_COLUMNS} FROM cells WHERE agent = ? AND (
            (agent_digest, agent_commit) IN (FROM meant)
            OR (agent_digest, agent_commit, started) IN (SELECT (agent_digest, agent_commit, last) FROM own))
        """,  # noqa: S608  names of this program
        [filters.model, filters.profile or "", filters.suite, agent, version, bare, bare, name, agent],
    )
    return as_records(rows.to_pylist())


def as_records(rows: Sequence[dict[str, Any]]) -> list[Record]:
    """Rows with the columns of `_COLUMNS`, each as a record."""
    build = _Builder()
    return [build.record(row) for row in rows]


class _Builder:
    """Parts that many records share are made once."""

    def __init__(self) -> None:
        self._parts: dict[tuple[Any, ...], Any] = {}

    def _part(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = make()
        return found

    def record(self, row: dict[str, Any]) -> Record:
        agent = (row["agent"], row["agent_digest"], row["agent_commit"], row["ranked"])
        case = (row["case_id"], row["case_category"], row["case_title"], row["case_digest"])
        origin = (row["run"], row["suite"], row["suite_version"], row["bench_version"])
        record: Record = _make(
            Record,
            cell=row["cell"],
            agent=self._part(agent, lambda: _named(AgentRef, ("id", "digest", "commit", "ranked"), agent)),
            case=self._part(case, lambda: _named(CaseRef, ("id", "category", "title", "digest"), case)),
            provenance=self._part(
                origin, lambda: _named(Provenance, ("run", "suite", "suite_version", "bench_version"), origin)
            ),
            machine=self._part(("m", row["machine"]), lambda: _make(Machine, fingerprint=row["machine"])),
            limits=self._part(("l", row["limits"]), lambda: LimitsSet.model_validate_json(row["limits"])),
            models=self._part(("n", row["models"]), lambda: json.loads(row["models"])),
            profile=row["profile"],
            trial=row["trial"],
            outcome=row["outcome"],
            success=row["success"],
            score=row["score"],
            cost_usd=row["cost_usd"],
            cost_status=row["cost_status"],
            steps=row["steps"],
            started=instant_of(row["started"]),
            finished=instant_of(row["finished"]),
            phases=_phases(row["agent_seconds"]),
            usage=[_usage(row["input_tokens"], row["output_tokens"])],
        )
        for name in _ABSENT:
            del record.__dict__[name]
        return record


def _make(model: Any, **facts: Any) -> Any:
    """Without validation: what is in the index was checked when it was stored."""
    return model.model_construct(**facts)


def _named(model: Any, names: Sequence[str], values: Sequence[Any]) -> Any:
    return _make(model, **dict(zip(names, values, strict=True)))


def _phases(agent_seconds: float | None) -> list[Phase]:
    return [] if agent_seconds is None else [_make(Phase, name="agent", seconds=agent_seconds)]


def _usage(sent: int | None, received: int | None) -> ModelUsage:
    """All roles as one: sums are what is asked for."""
    tokens = _make(Tokens, input_uncached=sent, cache_read=0, cache_write=0, output=received)
    usage: ModelUsage = _make(ModelUsage, tokens=tokens)
    return usage


def instant_of(microseconds: int) -> str:
    """As records write it, from microseconds since 1970."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"
