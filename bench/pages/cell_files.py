"""The cells beyond those that have a page, as files by case and month, which the page of a case reads on demand."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from threading import Lock

from bench.pages.board import Board
from bench.pages.sheet import Sheet
from bench.pages.words import short, visible
from bench.stats import CellLine, Results

MOST_LISTED = 300_000
"""Cells in all files, about: older months are on the results branch alone."""
_COLUMNS = (
    "started", "entrant", "run", "trial", "verdict", "score", "cost_usd", "cost_status", "steps", "ended",
)  # fmt: skip
MOST_LINES = 4_000
"""Of a file, which so stays far under a megabyte."""


@dataclass(frozen=True)
class CellFile:
    """Some or all cells of a case in a month."""

    address: str
    month: str
    part: int
    """From 1."""
    cells: int


class CellFiles:
    """The files of every case that has more cells than its page lists."""

    def __init__(self, results: Results, board: Board, listed: Mapping[str, int]) -> None:
        """`listed`: by case, cells that its page shows."""
        self._results = results
        self._reading = Lock()
        self._held: tuple[str, Mapping[str, Sequence[CellLine]]] = "", {}
        over = {case for case, seen in board.seen.items() if seen.results > listed.get(case, 0)}
        months = [it for it in results.case_months() if it.case in over] if over else []
        since = _first_month(_by_month((it.month, it.cells) for it in months))
        self._months = sorted((it for it in months if it.month >= since), key=lambda it: (it.month, it.case))

    def of_case(self) -> dict[str, list[CellFile]]:
        """The newest month first."""
        found: dict[str, list[CellFile]] = defaultdict(list)
        for file, _ in self.every():
            found[file.address.split("/")[2]].append(file)
        return {case: sorted(files, key=lambda it: (it.month, it.part), reverse=True) for case, files in found.items()}

    def every(self) -> Iterator[tuple[CellFile, Sheet]]:
        """Month by month: the lines of one are held at a time."""
        for it in self._months:
            for part in range(1, -(-it.cells // MOST_LINES) + 1):
                file = CellFile(
                    address=f"data/cells/{it.case}/{it.month}{f'-{part}' if part > 1 else ''}.json",
                    month=it.month,
                    part=part,
                    cells=min(MOST_LINES, it.cells - (part - 1) * MOST_LINES),
                )
                yield file, Sheet(file.address, f"{file!r} {it!r}", self._maker(it.case, file))

    def _maker(self, case: str, file: CellFile) -> Callable[[], bytes]:
        def make() -> bytes:
            with self._reading:
                of_case = self._lines(file.month)[case]
            lines = of_case[(file.part - 1) * MOST_LINES : file.part * MOST_LINES]
            return _content(case, file.month, lines)

        return make

    def _lines(self, month: str) -> Mapping[str, Sequence[CellLine]]:
        """By case, the oldest first."""
        if self._held[0] != month:
            self._held = "", {}  # not two months at once
            found: dict[str, list[CellLine]] = defaultdict(list)
            for line in self._results.lines_of_month(month):
                found[line.case].append(line)
            self._held = month, found
        return self._held[1]


def _by_month(cells: Iterator[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for month, number in cells:
        found[month] += number
    return found


def _first_month(cells: Mapping[str, int]) -> str:
    """The oldest month that is listed: whole months, so that files stay as they are, and the newest one always."""
    first, held = "", 0
    for month in sorted(cells, reverse=True):
        held += cells[month]
        if first and held > MOST_LISTED:
            break
        first = month
    return first


def _content(case: str, month: str, lines: Sequence[CellLine]) -> bytes:
    """Names stand once; lines point to them."""
    names: dict[tuple[str, ...], int] = {}
    runs: dict[str, int] = {}
    shown = cache(_shown)
    rows = []
    for it in lines:
        who = names.setdefault((it.agent, it.model, it.profile), len(names))
        verdict = it.outcome if it.outcome != "graded" else "success" if it.success else "failed"
        row = [it.started, who, runs.setdefault(it.run, len(runs)), it.trial, verdict]
        rows.append([*row, it.score, it.cost_usd, it.cost_status, it.steps, shown(it.ended)])
    document = {
        "schema": 1,
        "case": case,
        "month": month,
        "entrants": [[shown(name) for name in who] for who in names],
        "runs": [shown(run) for run in runs],
        "columns": _COLUMNS,
        "rows": rows,
    }
    return f"{json.dumps(document, separators=(',', ':'), allow_nan=False)}\n".encode()


def _shown(name: str) -> str:
    return str(visible(short(name)))
