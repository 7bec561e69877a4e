"""What cells took and cost, for the planner: medians and means of the newest, worked out in the index."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, cast

from bench.base.model import ModelT
from bench.formats.record import AgentRef, CaseRef, LimitsSet, Machine, ModelUsage, Phase, Provenance, Record, Tokens
from bench.plan import NEWEST, History, model_key
from bench.stats import CaseNight, Entrant

if TYPE_CHECKING:
    from bench.index.query import Index
    from bench.stats import Filters


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


def cell_history(index: Index) -> History:
    """As `History.of` finds it from all records that count."""
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
    return History(
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

    def _part(self, key: tuple[Any, ...], make: Callable[[], ModelT]) -> ModelT:
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


def _make(model: type[ModelT], **facts: Any) -> ModelT:
    """Without validation: what is in the index was checked when it was stored."""
    return cast("ModelT", model.model_construct(**facts))


def _named(model: type[ModelT], names: Sequence[str], values: Sequence[object]) -> ModelT:
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
