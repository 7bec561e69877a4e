"""What an agent's own program says that it used, beside what the gateway has metered in the same cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.formats.record import Record


@dataclass(frozen=True)
class Compared:
    """One figure, summed over the cells for which both sides have it."""

    name: str
    said: float
    metered: float
    cells: int


@dataclass(frozen=True)
class _Figure:
    name: str
    said: float | None
    metered: float | None


def own_counts(records: Iterable[Record]) -> list[Compared]:
    """The figures that the program reports, in the order of the pages; empty where it reports nothing."""
    figures = [figure for record in records for figure in _figures(record)]
    names = list(dict.fromkeys(figure.name for figure in figures))
    return [found for name in names if (found := _compared(name, figures)) is not None]


def _figures(record: Record) -> list[_Figure]:
    said, tokens = record.self_reported, [usage.tokens for usage in record.usage]
    if said is None:
        return []
    metered = [[it.input_uncached, it.cache_read, it.cache_write] for it in tokens]
    return [
        _Figure("calls", said.calls, sum(usage.calls for usage in record.usage)),
        _Figure("tokens in", said.input_tokens, _sum([part for parts in metered for part in parts])),
        _Figure("tokens out", said.output_tokens, _sum([it.output for it in tokens])),
        _Figure("dollars", said.cost_usd, record.cost_usd),
    ]


def _sum(parts: Sequence[int | None]) -> int | None:
    """None as soon as one part is unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _compared(name: str, figures: Sequence[_Figure]) -> Compared | None:
    both = [(it.said, it.metered) for it in figures if it.name == name]
    known = [(said, metered) for said, metered in both if said is not None and metered is not None]
    if not known:
        return None
    return Compared(name, math.fsum(it[0] for it in known), math.fsum(it[1] for it in known), len(known))
