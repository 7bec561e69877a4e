"""Agents against cases, and agents against each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from bench.formats.record import Profile
from bench.pages.board import Board, CaseInfo, Row, Section
from bench.stats import Entrant, HeadToHead, Tally, heads_to_heads

MOST_VERSUS = 20
"""Agents in the table of pairs; a file has all of them."""
_SHADES = 5


@dataclass(frozen=True)
class Cell:
    """An agent on a case."""

    tally: Tally | None
    shade: int
    """0 to 4 by success: the words say the same."""


@dataclass(frozen=True)
class Block:
    """The cases of one category."""

    category: str
    cases: Sequence[CaseInfo]
    rows: Sequence[tuple[Row, Sequence[Cell]]]


@dataclass(frozen=True)
class MatrixSection:
    profile: Profile
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Pair:
    """One agent against another; None: not a single case in common."""

    one: Entrant
    other: Entrant
    result: HeadToHead | None


@dataclass(frozen=True)
class VersusRow:
    row: Row
    beats: Sequence[Entrant]
    """By intervals that leave 0 out."""
    loses: Sequence[Entrant]
    open_: int
    """Those from which it cannot be told apart."""


@dataclass(frozen=True)
class Versus:
    profile: Profile
    rows: Sequence[VersusRow]
    pairs: Mapping[tuple[Entrant, Entrant], HeadToHead | None]
    """In both directions, among the first `MOST_VERSUS`."""

    @property
    def first(self) -> Sequence[Entrant]:
        return [it.row.standing.entrant for it in self.rows[:MOST_VERSUS]]


def matrix_of(board: Board) -> list[MatrixSection]:
    found = []
    for section in board.sections:
        cases = [case for case in board.cases.values() if section.profile in case.profiles]
        names = sorted({case.category for case in cases})
        blocks = [_block(name, [case for case in cases if case.category == name], section) for name in names]
        found.append(MatrixSection(section.profile, blocks))
    return found


def _block(category: str, cases: Sequence[CaseInfo], section: Section) -> Block:
    rows = [(row, [_cell(row.standing.cases.get(case.id)) for case in cases]) for row in section.everyone]
    return Block(category, cases, rows)


def _cell(tally: Tally | None) -> Cell:
    success = tally.success if tally else None
    return Cell(tally, 0 if success is None else min(_SHADES - 1, int(success * (_SHADES - 1) + 0.5)))


def pairs_of(section: Section) -> list[Pair]:
    """Every two competitors once, the better placed one first."""
    two = combinations([row.standing.entrant for row in section.competitors], 2)
    results = heads_to_heads([row.standing for row in section.competitors])
    return [Pair(one, other, result) for (one, other), result in zip(two, results, strict=True)]


def versus_of(section: Section, pairs: Sequence[Pair]) -> Versus:
    every = {(it.one, it.other): it.result for it in pairs}
    every |= {(it.other, it.one): turned(it.result) for it in pairs}
    of_one: dict[Entrant, dict[Entrant, HeadToHead | None]] = defaultdict(dict)
    for (one, other), result in every.items():
        of_one[one][other] = result
    rows = []
    for row in section.competitors:
        own = of_one[row.standing.entrant]
        beats = [other for other, it in own.items() if it and it.sure and it.difference > 0]
        loses = [other for other, it in own.items() if it and it.sure and it.difference < 0]
        rows.append(VersusRow(row, beats, loses, len(own) - len(beats) - len(loses)))
    return Versus(section.profile, rows, every)


def turned(it: HeadToHead | None) -> HeadToHead | None:
    """The same from the other side."""
    if it is None:
        return None
    interval = type(it.interval)(-it.interval.high, -it.interval.low) if it.interval else None
    return HeadToHead(-it.difference, interval, it.n, it.behind, it.ahead)
