"""The columns of the index: one flat row a record, with lists only where a question needs them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from bench.base.arrow import array_of
from bench.base.model import seed_text
from bench.formats.case_metric import Scale, headline_value
from bench.formats.record import case_version
from bench.index.line import Line, UsagePart
from bench.stats import model_label, sum_known

INDEX_SCHEMA = 7
"""Raised with every change of what is below: an index of another one is made anew."""
LINE_BITS = 24
"""`id` is the number of the file times 2 ** LINE_BITS, plus the line; no file has so many lines."""
SORTED_BY = ("agent", "case_id", "started")

_TEXT, _FLOAT, _INT, _BOOL = pa.string(), pa.float64(), pa.int64(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Row:
    """A parsed line and where it lies."""

    id: int
    path: str
    number: int
    attempt: int
    line: Line


@dataclass(frozen=True)
class Column:
    """A scalar of each record, or of each item of one of its lists."""

    name: str
    type: pa.DataType
    value: Callable[[Any], Any]


@dataclass(frozen=True)
class ListColumn:
    """A list of structs of each record."""

    name: str
    items: Callable[[Line], Sequence[Any]]
    fields: Sequence[Column]


def _plain(type_: pa.DataType, *paths: str) -> list[Column]:
    """Columns of attributes, each named after the last of its path."""
    return [Column(path.rpartition(".")[2], type_, attrgetter(path)) for path in paths]


def _phase(name: str) -> Callable[[Line], float | None]:
    def seconds(line: Line) -> float | None:
        found = [phase.seconds for phase in line.phases if phase.name == name]
        return math.fsum(found) if found else None

    return seconds


def _tokens(*names: str) -> Callable[[Line], int | None]:
    """The sum over roles; None as soon as one part is unknown."""
    return lambda line: sum_known(getattr(usage.tokens, name) for usage in line.usage for name in names)


def _used(name: str) -> Callable[[Line], Any]:
    value: Callable[[UsagePart], Any] = attrgetter(name)
    return lambda line: sum(map(value, line.usage))


def _named(name: str) -> Callable[[Line], list[str]]:
    notes: Callable[[Line], Any] = attrgetter(name)
    return lambda line: [note.name for note in notes(line)]


def _seed(seed: int | str | None) -> str | None:
    """Older records have a number."""
    return seed_text(seed) if isinstance(seed, int) else seed


def _optional_json(part: msgspec.Struct | None) -> str | None:
    return None if part is None else msgspec.json.encode(part, order="sorted").decode()


def _held_against(name: str) -> Callable[[Line], Any]:
    return lambda line: getattr(line.headline, name) if line.headline else None


def _value(line: Line) -> float | None:
    return headline_value(line.headline.name, line.metrics, line.checks) if line.headline else None


def _scored(name: str) -> Callable[[Line], float | None]:
    """`relative` or `bounded` of the headline's value; of a trial that is not valid none and 0."""

    def score(line: Line) -> float | None:
        if line.headline is None or line.outcome != "graded":
            return None
        value = _value(line)
        if value is None:
            return 0.0 if name == "bounded" else None
        found: float | None = getattr(Scale(**msgspec.structs.asdict(line.headline)), name)(value)
        return found

    return score


def models_text(models: dict[str, str]) -> str:
    """Models by role as JSON with sorted keys: the same text for the same models."""
    return msgspec.json.encode(models, order="sorted").decode()


_LINE_COLUMNS: tuple[Column, ...] = (
    *_plain(_TEXT, "provenance.run", "cell"),
    Column("agent", _TEXT, attrgetter("agent.id")),
    Column("agent_digest", _TEXT, attrgetter("agent.digest")),
    Column("agent_commit", _TEXT, attrgetter("agent.commit")),
    Column("ranked", _BOOL, lambda line: line.agent.ranked and line.provenance.isolated),
    Column("case_id", _TEXT, attrgetter("case.id")),
    Column("case_category", _TEXT, attrgetter("case.category")),
    Column("case_title", _TEXT, attrgetter("case.title")),
    Column("case_digest", _TEXT, attrgetter("case.digest")),
    Column("case_version", _TEXT, lambda line: case_version(line.case.digest, line.provenance.judge)),
    Column("model", _TEXT, lambda line: model_label(line.models, helped=line.help is not None)),
    Column("help", _TEXT, lambda line: line.help.by if line.help else ""),
    Column("models", _TEXT, lambda line: models_text(line.models)),
    *_plain(_TEXT, "profile", "arm"),
    *_plain(_INT, "trial", "seed"),
    *_plain(_TEXT, "seed_source"),
    Column("judge_seed", _TEXT, lambda line: _seed(line.judge_seed)),
    *_plain(_TEXT, "outcome", "stop_reason", "cause", "error"),
    *_plain(_BOOL, "success"),
    *_plain(_FLOAT, "score"),
    Column("headline", _TEXT, _held_against("name")),
    Column("headline_value", _FLOAT, _value),
    Column("headline_direction", _TEXT, _held_against("direction")),
    Column("headline_unit", _TEXT, _held_against("unit")),
    *(Column(name, _FLOAT, _held_against(name)) for name in ("baseline", "target", "bar")),
    *(Column(name, _FLOAT, _scored(name)) for name in ("relative", "bounded")),
    *_plain(_INT, "overclaims", "steps"),
    *_plain(_FLOAT, "cost_usd"),
    *_plain(_TEXT, "cost_status"),
    *_plain(_TIME, "started", "finished"),
    Column("seconds", _FLOAT, lambda line: sum(phase.seconds for phase in line.phases)),
    Column("prepare_seconds", _FLOAT, _phase("prepare")),
    Column("agent_seconds", _FLOAT, _phase("agent")),
    Column("judge_seconds", _FLOAT, _phase("judge")),
    Column("input_tokens", _INT, _tokens("input_uncached", "cache_read", "cache_write")),
    Column("cache_read_tokens", _INT, _tokens("cache_read")),
    Column("cache_write_tokens", _INT, _tokens("cache_write")),
    Column("output_tokens", _INT, _tokens("output")),
    Column("reasoning_tokens", _INT, _tokens("reasoning")),
    *(Column(name, _INT, _used(name)) for name in ("calls", "failed_calls", "refused_calls", "retries")),
    Column("at_risk_usd", _FLOAT, _used("at_risk_usd")),
    Column("waited_seconds", _FLOAT, _used("waited_s")),
    Column("price_version", _TEXT, lambda line: line.usage[0].price_version if line.usage else ""),
    Column("machine", _TEXT, attrgetter("machine.fingerprint")),
    *_plain(_TEXT, "machine.cpu"),
    *_plain(_INT, "machine.cores", "machine.memory_mb"),
    *_plain(_TEXT, "machine.gpu"),
    Column("limits", _TEXT, lambda line: str(line.limits, "utf-8")),
    *_plain(_TEXT, *(f"provenance.{name}" for name in ("suite", "suite_version", "bench_version", "bench_commit"))),
    *_plain(_TEXT, "provenance.judge"),
    Column("sequential", _TEXT, lambda line: _optional_json(line.provenance.sequential)),
    *_plain(_BOOL, "provenance.dirty"),
    *_plain(_TEXT, "provenance.sandbox"),
    *_plain(_BOOL, "provenance.isolated"),
    *_plain(_TEXT, "provenance.run_url", "provenance.workflow"),
    Column("tries", _INT, lambda line: len(line.tries)),
    *_plain(pa.list_(_TEXT), "limits_hit"),
    Column("failure_modes", pa.list_(_TEXT), _named("failure_modes")),
    Column("flags", pa.list_(_TEXT), _named("flags")),
)
_PLACE_COLUMNS: tuple[Column, ...] = (
    *_plain(_INT, "id"),
    *_plain(_TEXT, "path"),
    Column("line", _INT, attrgetter("number")),
    *_plain(_INT, "attempt"),
)
LISTS: tuple[ListColumn, ...] = (
    ListColumn(
        "checks",
        attrgetter("checks"),
        (
            Column("check_id", _TEXT, attrgetter("id")),
            *_plain(_FLOAT, "weight"),
            *_plain(_BOOL, "required", "guard"),
            *_plain(_FLOAT, "value", "seconds"),
            *_plain(_TEXT, "message", "origin"),
        ),
    ),
    ListColumn(
        "metrics", attrgetter("metrics"), (*_plain(_TEXT, "name"), *_plain(_FLOAT, "value"), *_plain(_TEXT, "unit"))
    ),
    ListColumn(
        "claims",
        attrgetter("claims"),
        (*_plain(_TEXT, "name"), *_plain(_FLOAT, "claimed", "measured"), *_plain(_BOOL, "overclaim")),
    ),
    ListColumn(
        "usage",
        attrgetter("usage"),
        (
            *_plain(_TEXT, "role", "model"),
            *_plain(_INT, "calls"),
            *_plain(_INT, "tokens.input_uncached", "tokens.cache_read", "tokens.cache_write"),
            *_plain(_INT, "tokens.output", "tokens.reasoning"),
            *_plain(_FLOAT, "cost_usd"),
        ),
    ),
)


@cache
def schema() -> pa.Schema:
    """All columns."""
    scalars = [pa.field(it.name, it.type) for it in (*_PLACE_COLUMNS, *_LINE_COLUMNS)]
    lists = [pa.field(it.name, pa.list_(_struct(it))) for it in LISTS]
    return pa.schema([*scalars, *lists])


def to_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as columns, in their order."""
    lines = [row.line for row in rows]
    arrays = [
        *(_array(column, rows) for column in _PLACE_COLUMNS),
        *(_array(column, lines) for column in _LINE_COLUMNS),
        *(_lists(column, lines) for column in LISTS),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


def _array(column: Column, things: Iterable[Any]) -> pa.Array:
    return array_of(list(map(column.value, things)), column.type)


def _lists(column: ListColumn, lines: Sequence[Line]) -> pa.Array:
    """Built from flat children and offsets: a dictionary for every item would cost more than all the rest."""
    lists = list(map(column.items, lines))
    items = [item for items in lists for item in items]
    offsets = [0]
    for part in lists:
        offsets.append(offsets[-1] + len(part))
    children = [_array(field, items) for field in column.fields]
    struct = pa.StructArray.from_arrays(children, fields=list(_struct(column)))
    return pa.ListArray.from_arrays(array_of(offsets, pa.int32()), struct, type=pa.list_(_struct(column)))


def _struct(column: ListColumn) -> pa.StructType:
    return pa.struct([pa.field(field.name, field.type) for field in column.fields])
