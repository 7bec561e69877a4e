"""What the planner and `compare` ask of the index: a history, records of a name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from bench.base.model import Model, ModelT
from bench.formats.help import HelpGiven
from bench.formats.model_usage import ModelUsage, Tokens
from bench.formats.provenance import LimitsSet, Machine, Provenance, Sequential
from bench.formats.record import AgentRef, CaseRef, Phase, Record
from bench.stats import AA_RUNS

if TYPE_CHECKING:
    from bench.index.query import Index
    from bench.plan import History
    from bench.stats import Filters


_COLUMNS = """cell, arm, models, help, profile, trial, outcome, success, score, cost_usd, cost_status, steps, limits,
    price_version,
    epoch_us(started) AS started, epoch_us(finished) AS finished, agent_seconds, input_tokens, output_tokens,
    {'id': agent, 'digest': agent_digest, 'commit': agent_commit, 'ranked': ranked} AS agent,
    {'id': case_id, 'category': case_category, 'title': case_title, 'digest': case_digest} AS case,
    {'run': run, 'suite': suite, 'suite_version': suite_version, 'bench_version': bench_version,
        'judge': judge, 'sandbox': sandbox, 'isolated': isolated, 'sequential': sequential} AS provenance,
    {'fingerprint': machine} AS machine"""
_AA_RUNS = f"""SELECT {_COLUMNS} FROM cells WHERE arm <> '' AND run IN (
    SELECT run FROM cells WHERE arm <> '' GROUP BY run
    HAVING count(DISTINCT arm) = 2 AND count(DISTINCT (agent, agent_digest)) = 1)"""  # noqa: S608
_PARTS: Mapping[str, type[Model]] = {"agent": AgentRef, "case": CaseRef, "provenance": Provenance, "machine": Machine}


def cell_history(index: Index) -> History:
    """As `History.of` finds it from all records that count."""
    from bench.plan import NEWEST, History, Seen, all_replayed, model_key  # the site asks nothing of it

    models_of = {text: json.loads(text) for (text,) in index.rows("SELECT DISTINCT models FROM cells")}
    keys = {text: model_key(models) for text, models in models_of.items()}
    free = {text for text, models in models_of.items() if all_replayed(models)}
    limits = "(json_extract(limits, '$.agent_s')::DOUBLE + json_extract(limits, '$.grade_s')::DOUBLE)"
    newest = f"max_by({{'s': seconds, 'c': cost_usd, 'l': {limits}, 'r': run}}, (started, cell), {NEWEST})"
    exact = index.rows(
        f"""SELECT agent, models, case_id, profile, list_median(list_transform(found, lambda x: x.s)),
            list_avg(list_transform(found, lambda x: x.c)), found
        FROM (SELECT agent, models, case_id, profile, {newest} AS found
              FROM cells WHERE outcome = 'graded' GROUP BY ALL)"""  # noqa: S608
    )
    cases = index.rows(
        f"""SELECT case_id, profile, list_median(list_transform({newest}, lambda x: x.s))
        FROM cells WHERE outcome = 'graded' GROUP BY ALL"""  # noqa: S608
    )
    shares = index.rows(
        f"""SELECT agent, models, list_avg(max_by(seconds / {limits}, (started, cell), {NEWEST}))
        FROM cells WHERE outcome = 'graded' GROUP BY ALL"""  # noqa: S608
    )
    graded = index.rows(
        "SELECT DISTINCT agent_digest, models, case_version, profile, trial FROM cells WHERE outcome = 'graded'"
    )
    return History(
        exact={
            (agent, keys[models], case, profile): (s, 0.0 if models in free else c)
            for agent, models, case, profile, s, c, _ in exact
        },
        cases={(case, profile): seconds for case, profile, seconds in cases},
        shares={(agent, keys[models]): mean for agent, models, mean in shares},
        graded={(agent, keys[models], case, profile, trial) for agent, models, case, profile, trial in graded},
        seen={
            (agent, keys[models], case, profile): [Seen(it["s"], it["s"] / it["l"], it["r"]) for it in found[::-1]]
            for agent, models, case, profile, _, _, found in exact
        },
    )


def stored_records(index: Index, reference: str, filters: Filters) -> list[Record]:
    """What `bench.stats.choice.choose` needs to know of the stored records to find those of `reference`.

    The rows of a run of that name; of an agent of that name those of the version that is meant, and the newest row of
    every other version, so that it can be told what else there is. For `AA_RUNS` the rows of these runs.
    """
    if reference == AA_RUNS:
        return as_records(index.table(_AA_RUNS).to_pylist())
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


def as_records(rows: Iterable[dict[str, Any]]) -> list[Record]:
    """Rows with the columns of `_COLUMNS`, each as a record that lacks what is not in them.

    To ask such a record for another field is an error, and never answered with the field's default.
    """
    # Parts that many records share are made once.
    part = cache(lambda name, *facts: _part(name, dict(facts)))
    limits, models = cache(LimitsSet.model_validate_json), cache(json.loads)
    found = []
    for row in rows:
        facts = {
            **row,
            **{name: part(name, *row[name].items()) for name in _PARTS},
            "limits": limits(row["limits"]),
            "models": models(row["models"]),
            "help": HelpGiven(by=row["help"]) if row["help"] else None,
            "started": instant_of(row["started"]),
            "finished": instant_of(row["finished"]),
            "phases": _phases(row["agent_seconds"]),
            "usage": [_usage(row["input_tokens"], row["output_tokens"], row["price_version"])],
        }
        record = _make(Record, **{name: facts[name] for name in Record.model_fields.keys() & facts.keys()})
        for name in Record.model_fields.keys() - facts.keys():
            record.__dict__.pop(name, None)
        found.append(record)
    return found


def _part(name: str, facts: dict[str, Any]) -> Model:
    if facts.get("sequential"):
        facts["sequential"] = _make(Sequential, **json.loads(facts["sequential"]))
    return _make(_PARTS[name], **facts)


def _make(model: type[ModelT], **facts: Any) -> ModelT:
    """Without validation: what is in the index was checked when it was stored."""
    return cast("ModelT", model.model_construct(**facts))


def _phases(agent_seconds: float | None) -> list[Phase]:
    return [] if agent_seconds is None else [_make(Phase, name="agent", seconds=agent_seconds)]


def _usage(sent: int | None, received: int | None, prices: str) -> ModelUsage:
    """All roles as one: sums are what is asked for."""
    tokens = _make(Tokens, input_uncached=sent, cache_read=0, cache_write=0, output=received)
    usage: ModelUsage = _make(ModelUsage, tokens=tokens, price_version=prices)
    return usage


def instant_of(microseconds: int) -> str:
    """As records write it, from microseconds since 1970."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"
