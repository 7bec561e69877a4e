"""Every cell as one line, by month: what a board lists beyond the cells that have a page."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from bench.formats.record import Record
from bench.stats.entrants import model_label


class CellLine(NamedTuple):
    """A result as one line; in the order of its fields, lines are in the order of time."""

    case: str
    started: str
    """To the second."""
    run: str
    cell: str
    agent: str
    model: str
    profile: str
    trial: int
    outcome: str
    success: bool | None
    score: float | None
    cost_usd: float | None
    cost_status: str
    steps: int
    ended: str
    """The reason to stop, or the cause of a lost cell."""


class CaseMonth(NamedTuple):
    """How many results a case has from one month."""

    case: str
    month: str
    """`2026-11`, UTC."""
    cells: int
    digest: str
    """Other lines give another one. The same lines may give another one too, where another program worked it out."""


def line_of(record: Record) -> CellLine:
    return CellLine(
        case=record.case.id,
        started=f"{record.started[:19]}Z",
        run=record.provenance.run,
        cell=record.cell,
        agent=record.agent.id,
        model=model_label(record.models, helped=record.help is not None),
        profile=record.profile,
        trial=record.trial,
        outcome=record.outcome,
        success=record.success,
        score=record.score,
        cost_usd=record.cost_usd,
        cost_status=record.cost_status,
        steps=record.steps,
        ended=record.stop_reason or record.cause or "",
    )


def line_order(line: CellLine) -> tuple[tuple[bool, object], ...]:
    """Any two lines can be compared: what is unknown comes last."""
    return tuple((value is None, value if value is not None else 0) for value in line)


def months_of(lines: Collection[CellLine]) -> list[CaseMonth]:
    """By case and month."""
    found: dict[tuple[str, str], list[CellLine]] = defaultdict(list)
    for line in lines:
        found[line.case, line.started[:7]].append(line)
    return [CaseMonth(*key, len(them), _digest(them)) for key, them in sorted(found.items())]


def _digest(lines: Collection[CellLine]) -> str:
    text = repr(sorted(lines, key=line_order))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
