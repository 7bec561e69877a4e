"""The course of a run: a line for each finished cell and, on a terminal, below them what is running."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from bench.base.text import counted, printable
from bench.cli.console import LiveLine, Ticker, fetched_share
from bench.cli.printing import terminal_width
from bench.formats.plan import Cell, RunPlan
from bench.formats.record import Record, Try
from bench.report import outcome_line
from bench.runs import RunObserver

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bench.gateway import CallLine

_HEARTBEAT_S = 60.0
"""Silence in a log after which the progress is said."""
_MOST_SHOWN = 6
"""Running cells with a line of their own."""
_SHORTEST_NAME = 12
"""Columns of a running cell's name that stay however narrow the terminal is."""


@dataclass
class _Live:
    """A cell that runs, as far as the runner was told."""

    name: str
    began: float
    seconds: float
    """The agent's limit."""
    steps_limit: int
    cost_limit: float | None
    phase: str = ""
    phase_began: float = 0.0
    steps: int = 0
    cost: float = 0.0

    @classmethod
    def of(cls, cell: Cell, now: float) -> _Live:
        limits = cell.case.spec.limits
        arm = f" ({cell.arm})" if cell.arm else ""
        name = f"{cell.agent.id}{arm} on {cell.case.id}, trial {cell.trial}"
        return cls(name, now, limits.agent_s, limits.steps, limits.cost_usd if cell.models else None, "", now)

    def facts(self, now: float) -> list[str]:
        limit = f" of {_spoken(self.seconds)}" if self.phase == "agent" else ""
        found = [f"{self.phase or 'starts'} {_spoken(now - self.phase_began)}{limit}"]
        if self.steps:
            most = f" of ${self.cost_limit:.2f}" if self.cost_limit is not None else ""
            found += [f"{self.steps} of {self.steps_limit} steps", f"${self.cost:.4f}{most}"]
        return found


class Reporter(RunObserver, LiveLine):
    """Prints one line for each finished cell and, on a terminal, below them the progress and what is running.

    Elsewhere a line about the progress follows after a silent minute. shard: its name, where the run is a part of one.
    """

    def __init__(self, quiet: bool = False, shard: str = "") -> None:
        RunObserver.__init__(self)
        LiveLine.__init__(self, quiet)
        # Cells begin and end in threads of their own.
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._said = self._began
        self._kept = 0
        self._fetched = Ticker(quiet)
        self._shard = shard
        self._cells: dict[str, _Live] = {}
        self._steps = 0
        self._cost = 0.0
        """Of cells that have ended here."""
        self._asking = 0
        """Questions that wait: a person may be typing, so nothing is drawn."""

    def start(self, plan: RunPlan, folder: Path) -> None:
        named = f"shard {self._shard} of run {plan.run}" if self._shard else f"run {plan.run}"
        count = counted(len(plan.cells), "cell")
        self._say(f"{named}: {count} in {folder}, sandbox {plan.sandbox}")

    def begin(self, cell: Cell) -> None:
        with self._lock:
            now = time.monotonic()
            if self.done == self._kept and not self._cells:
                self._began = self._said = now
            self._cells[cell.id] = _Live.of(cell, now)

    def phase(self, cell: Cell, name: str, seconds: float | None) -> None:
        with self._lock:
            if seconds is None and (live := self._cells.get(cell.id)) is not None:
                live.phase, live.phase_began = name, time.monotonic()

    def call(self, cell: Cell, line: CallLine) -> None:
        with self._lock:
            if (live := self._cells.get(cell.id)) is not None:
                live.steps += line.is_step
                live.cost += line.cost_usd or 0.0

    def retry(self, cell: Cell, lost: Try) -> None:
        with self._lock:
            if (live := self._cells.get(cell.id)) is not None:
                live.steps, live.cost = 0, 0.0
                self._say(f"note: {live.name}: once more, after {lost.cause}: {printable(lost.message, 300)}")

    def building(self, agent: str, line: str, *, news: bool) -> None:
        with self._lock:
            text = f"agent {agent}: {printable(line)}"
            if self.works and not news:
                from rich.text import Text

                self.show(Text(text, no_wrap=True, overflow="ellipsis"))
            else:
                self._say(text)

    def end(self, record: Record, kept: bool) -> None:
        with self._lock:
            self._cells.pop(record.cell, None)
            self.done += 1
            self._kept += kept
            if not kept:
                self._steps += record.steps
                self._cost += record.cost_usd or 0.0
            self._say(f"[{self.done}/{self.total}] {outcome_line(record)}{' (kept)' if kept else ''}")

    def note(self, line: str) -> None:
        with self._lock:
            self._say(f"note: {printable(line)}")

    @contextmanager
    def asking(self, cell: str) -> Iterator[None]:
        with self._lock:
            self._asking += 1
            self.clear()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1

    def fetching(self, name: str, done: int, total: int) -> None:
        self._fetched(f"fetching {name}: {fetched_share(done, total)}")
        if done == total:
            self._fetched.clear()

    def tick(self) -> None:
        with self._lock:
            now = time.monotonic()
            if self._asking:
                return
            if self.works and self._cells:
                self.show(self._state(now))
            elif self._cells and now - self._said >= _HEARTBEAT_S:
                running = "; ".join(f"{live.name}: {', '.join(live.facts(now))}" for live in self._shown_cells())
                self._say(f"... {self._summary(now)}; running: {running}{self._more()}")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        if not self.quiet:
            self.say(line)

    def _summary(self, now: float) -> str:
        elapsed, fresh = now - self._began, self.done - self._kept
        left = f", about {_spoken(elapsed / fresh * (self.total - self.done))} left" if fresh else ""
        steps = self._steps + sum(live.steps for live in self._cells.values())
        cost = self._cost + sum(live.cost for live in self._cells.values())
        spent = f"; {steps} step{'s' * (steps != 1)}, ${cost:.4f}" if steps else ""
        return f"{self.done}/{self.total} done, {_spoken(elapsed)}{left}{spent}"

    def _shown_cells(self) -> list[_Live]:
        return list(self._cells.values())[:_MOST_SHOWN]

    def _more(self) -> str:
        more = len(self._cells) - _MOST_SHOWN
        return f"; and {more} more" if more > 0 else ""

    def _state(self, now: float) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        head = Table.grid(padding=(0, 1))
        said = Text(f"{self._summary(now)}{self._more()}", no_wrap=True, overflow="ellipsis")
        head.add_row(ProgressBar(self.total, self.done, width=10), said)
        cells = Table.grid(padding=(0, 2))
        for column in ("left", "left", "right", "right"):
            cells.add_column(justify=column, no_wrap=True, overflow="ellipsis")
        rows = [(live.name, live.facts(now)) for live in self._shown_cells()]
        # Where a line is too long the name gives way, since it stands in the line of the finished cell again.
        facts = zip_longest(*(own for _, own in rows), fillvalue="")
        room = max(terminal_width(sys.stderr) - sum(2 + max(map(len, column)) for column in facts), _SHORTEST_NAME)
        for name, own in rows:
            text = Text(f"  {name}")
            text.truncate(room, overflow="ellipsis")
            cells.add_row(text, *map(Text, own))
        return Group(head, cells)


def _spoken(seconds: float) -> str:
    """A duration, rounded for people."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    return f"{round(seconds / 60)} min" if whole < 6000 else f"{whole // 3600} h {whole % 3600 // 60:02} min"
