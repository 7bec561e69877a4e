"""Running the cells of a run side by side, going on where a killed runner stopped."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from bench.cell import Cell, RunContext
from bench.clock import Clock
from bench.record import Record, Try
from bench.recorder import Finished, write_record
from bench.run import run_cell
from bench.rundir import RunFolder


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

    def tick(self) -> None:
        """Nothing new for a moment."""


def run_cells(
    cells: Sequence[Cell], context: RunContext, folder: RunFolder, jobs: int, progress: Progress
) -> list[Record]:
    """Run every cell that is not graded yet, `jobs` at a time; returns the records of all, in the cells' order.

    On KeyboardInterrupt the cells under way get a record of outcome `interrupted`; then it is raised again.
    """
    records = {cell.id: record for cell in cells if (record := folder.finished(cell)) is not None}
    for record in records.values():
        progress.end(record, True)
    waiting = [cell for cell in cells if cell.id not in records]
    under_way: dict[str, tuple[Cell, list[Try]]] = {}
    guard = threading.Lock()

    def work(cell: Cell) -> Record:
        earlier = folder.set_aside(cell)
        with guard:
            under_way[cell.id] = (cell, earlier)
        progress.begin(cell)
        record = run_cell(cell, context, earlier)
        with guard:
            under_way.pop(cell.id, None)
        return record

    # Threads, since a cell is a child process; each outlives its sandbox, which would end with it.
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="cell")
    try:
        futures = [pool.submit(work, cell) for cell in waiting]
        for record in _as_they_end(futures, progress):
            records[record.cell] = record
            progress.end(record, False)
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        with guard:
            for cell, earlier in under_way.values():
                finished = Finished(Clock(), cause="interrupted", error="stopped by the user")
                write_record(cell, context, finished, earlier)
        raise
    with contextlib.suppress(RuntimeError):
        pool.shutdown(wait=True)
    return [records[cell.id] for cell in cells]


def _as_they_end(futures: Sequence[Future[Record]], progress: Progress) -> Iterator[Record]:
    pending = set(futures)
    while pending:
        ended, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
        progress.tick()
        for future in ended:
            yield future.result()
