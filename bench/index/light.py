"""Rows of the index as records, for `compare`: real `Record` objects with the fields that comparing asks for.

What the index does not hold is not there: asking for it is an AttributeError, never an empty list that looks true.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bench.record import AgentRef, CaseRef, LimitsSet, Machine, ModelUsage, Phase, Provenance, Record, Tokens

if TYPE_CHECKING:
    from bench.index.query import Index
    from bench.stats.choice import Filters

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
    return to_records(rows.to_pylist())


def to_records(rows: Sequence[dict[str, Any]]) -> list[Record]:
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
