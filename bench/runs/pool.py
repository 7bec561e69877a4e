"""The cells of a run side by side, to the end of all or to an interrupt."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from bench.cell import CellContext, run_cell
from bench.formats.plan import Cell
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.guest.first_process import children
from bench.runs.observer import RunObserver
from bench.runs.repair import repair

_STOP_S = 15.0
"""Seconds that interrupted cells have to write their records; then they end with this process."""


def run_cells(
    cells: Sequence[Cell], context: CellContext, folder: RunFolder, jobs: int, progress: RunObserver
) -> list[Record]:
    """Run every cell that is not graded yet, `jobs` at a time; returns the records of all, in the cells' order.

    On KeyboardInterrupt the cells under way get a record of outcome `interrupted`; then it is raised again. So is the
    `UserError` of a record that could not be written: a disk without space for it has none for the other records.
    """
    for line in repair(folder, cells):
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


def _as_they_end(futures: Sequence[Future[Record]], context: CellContext, progress: RunObserver) -> Iterator[Record]:
    pending = set(futures)
    while pending:
        ended, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
        context.space.look()
        progress.tick()
        for future in ended:
            yield future.result()
