"""Running the cells of a run side by side, going on where a killed runner stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from bench.cell import Cell, RunContext
from bench.inside.init import children
from bench.mend import mend
from bench.record import Record
from bench.run import run_cell
from bench.rundir import RunFolder

_STOP_S = 15.0
"""After it, what still runs is left to end with this process."""


@dataclass
class Progress:
    """Told as the run goes; the default says nothing."""

    total: int = 0
    done: int = 0
    running: dict[str, float] = field(default_factory=dict)

    def begin(self, cell: Cell) -> None:
        """A cell starts."""

    def end(self, record: Record, kept: bool) -> None:
        """A cell is finished; `kept`: it was so before this start."""

    def note(self, line: str) -> None:
        """Something a user should know, such as a damaged file."""

    def tick(self) -> None:
        """Nothing new for a moment."""


def run_cells(
    cells: Sequence[Cell], context: RunContext, folder: RunFolder, jobs: int, progress: Progress
) -> list[Record]:
    """Run every cell that is not graded yet, `jobs` at a time; returns the records of all, in the cells' order.

    On KeyboardInterrupt the cells under way get a record of outcome `interrupted`; then it is raised again. So is the
    `UserError` of a record that could not be written: without room for one there is none for the others.
    """
    for line in mend(folder, cells):
        progress.note(line)
    records = {cell.id: record for cell in cells if (record := folder.finished(cell)) is not None}
    for record in records.values():
        progress.end(record, True)
    waiting = [cell for cell in cells if cell.id not in records]

    def work(cell: Cell) -> Record:
        progress.begin(cell)
        return run_cell(cell, context, folder.set_aside(cell))

    # Threads, since a cell is a child process; each outlives its sandbox, which would end with it.
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="cell")
    try:
        futures = [pool.submit(work, cell) for cell in waiting]
        for record in _as_they_end(futures, context, progress):
            records[record.cell] = record
            progress.end(record, False)
    except BaseException:
        context.stopped.set()
        pool.shutdown(wait=False, cancel_futures=True)
        _end_cells(futures)
        raise
    with contextlib.suppress(RuntimeError):
        pool.shutdown(wait=True)
    return [records[cell.id] for cell in cells]


def _end_cells(futures: Sequence[Future[Record]]) -> None:
    """End what the cells under way have started, until each has written down that it was interrupted."""
    until = time.monotonic() + _STOP_S
    while not all(future.done() for future in futures) and time.monotonic() < until:
        for pid in children(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        wait(futures, timeout=0.2)


def _as_they_end(futures: Sequence[Future[Record]], context: RunContext, progress: Progress) -> Iterator[Record]:
    pending = set(futures)
    while pending:
        ended, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
        context.space.look()
        progress.tick()
        for future in ended:
            yield future.result()
