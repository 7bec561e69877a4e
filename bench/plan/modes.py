"""Which cells of a grid are worth running: all, those of agents that changed, or today's share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date

from bench.cell import Cell
from bench.plan.estimate import History
from bench.plan.experiment import Mode


def select(cells: Sequence[Cell], mode: Mode, history: History, today: date, period_days: int) -> list[Cell]:
    """The cells of `mode`, in their order.

    `changed`: without a verdict for this very version of agent and case. `rotating`: of the cases whose turn it is
    today; in `period_days` consecutive days each case has one turn.
    """
    if mode == "changed":
        return [cell for cell in cells if not history.knows(cell)]
    if mode == "rotating":
        turn = today.toordinal() % period_days
        return [cell for cell in cells if turn_of(cell.case.id, period_days) == turn]
    return list(cells)


def turn_of(case: str, period_days: int) -> int:
    """The day of the period on which a case is met; it moves for no other case that comes or goes."""
    return int.from_bytes(hashlib.sha256(case.encode()).digest()[:8], "big") % period_days
