"""One cell, from a fresh workspace to a stored record: the heart of the benchmark."""

from __future__ import annotations

import errno
import time
import traceback
from functools import partial
from pathlib import Path

from bench.base.errors import InfraError, UserError
from bench.base.times import TimeOfDay
from bench.cell.agent_job import Overlay
from bench.cell.agent_phase import run_agent
from bench.cell.arbitration import settle
from bench.cell.context import CellContext, Clock
from bench.cell.diagnosis import Evidence, require_calm, require_same_files
from bench.cell.machine import CellRoom
from bench.cell.needs import unmet_needs
from bench.cell.recorder import Finished, judged, write_record
from bench.cell.workspace import CellFolder, discard
from bench.formats.failures import FAILURES, MAX_TRIES
from bench.formats.plan import Cell
from bench.formats.record import Record, Try
from bench.formats.verdict import INTERRUPTED, MOST_INTERRUPTED, interrupted_too_often
from bench.formats.wrong_answers import materialise, telling_answer
from bench.guest.trees import remove_tree
from bench.sandbox import Gpu

_UNSEEN_S = 1.0
"""Of an agent's phase, with its gateway and services coming up: by then nothing was to be seen of its answer."""


def run_cell(cell: Cell, context: CellContext, earlier: list[Try] | None = None) -> Record:
    """Run one cell and store its record, whatever happens; infrastructure failures are tried again.

    Raises `UserError` when not even the record can be written.
    """
    with context.space.of_cell(context.held(cell), cell.case.spec.limits.disk_mb) as room:
        return _tried(cell, context, room, list(earlier or []))


def _tried(cell: Cell, context: CellContext, room: CellRoom, tries: list[Try]) -> Record:
    for count in range(1, MAX_TRIES + 1):
        clock = Clock(tell=partial(context.watch.phase, cell))
        try:
            finished = _attempt(cell, context, clock, _withheld(tries))
            if full := room.full_since(clock.room_since):
                raise InfraError("disk_full", full)
            break
        except Exception as error:
            cause, message = _cause(error, room.full_since(clock.room_since))
            finished = Finished(clock=clock, cause=cause, error=message)
            if context.stopped.is_set() or not FAILURES[cause].retry or count == MAX_TRIES:
                break
            tries.append(Try(outcome=FAILURES[cause].outcome, cause=cause, message=message[:500], at=clock.started))
            context.watch.retry(cell, tries[-1])
    if context.stopped.is_set():
        # Its processes were ended by us, so neither a crash nor a fault that was met means anything.
        finished = _interrupted(cell, context, clock, tries)
    return write_record(cell, context, finished, tries)


def _withheld(tries: list[Try]) -> str:
    """Why the agent is not started any more; empty where it is."""
    return f"not started: the run was stopped from outside {MOST_INTERRUPTED} times while the agent worked" * (
        interrupted_too_often(tries)
    )


def _interrupted(cell: Cell, context: CellContext, clock: Clock, tries: list[Try]) -> Finished:
    """A try that was stopped from outside: at the agent's work, or before there was anything to see of it."""
    took = {phase.name: phase.seconds for phase in clock.phases}
    ledger = context.trace(cell) / "calls.jsonl"
    asked = "agent" in took and ledger.is_file() and ledger.stat().st_size > 0
    seen = asked or "snapshot" in took or took.get("agent", 0.0) >= _UNSEEN_S
    if not seen or _withheld(tries):
        return Finished(clock=clock, cause="interrupted", error="the run was stopped from outside")
    said = f"the run was stopped from outside, {took['agent']:.1f} s after the agent's phase began"
    return Finished(clock=clock, cause=INTERRUPTED, error=said)


def _cause(error: Exception, full: str) -> tuple[str, str]:
    """The row of the failure table for an exception, and what to say of it; `full`: what is known of a full disk."""
    if full:
        return "disk_full", f"{full}: {error}"[:2000] if str(error) != full else full
    if isinstance(error, InfraError):
        return error.cause, str(error)[:2000]
    if isinstance(error, UserError):
        return "setup_error", str(error)[:2000]
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "disk_full", str(error)
    return "internal_error", "".join(traceback.format_exception(error, limit=-4))[-2000:]


def _attempt(cell: Cell, context: CellContext, clock: Clock, withheld: str) -> Finished:
    if unmet := unmet_needs(cell.case.spec.needs, context.gpu_roots, context.sandbox):
        raise InfraError("needs_missing", unmet)
    with context.gpu(cell) as gpu:
        return _carry_out(cell, context, clock, gpu, withheld)


def _carry_out(cell: Cell, context: CellContext, clock: Clock, gpu: Gpu | None, withheld: str) -> Finished:
    scratch = context.work(cell)
    discard([scratch])
    # What an earlier try has left would pass for this one's.
    remove_tree(context.trace(cell))
    try:
        with clock.phase("prepare"):
            folder = CellFolder.prepare(cell, context, scratch, gpu)
        with clock.phase("agent"):
            day = TimeOfDay()
            phase = run_agent(folder, _overlay(cell, scratch / "answer"), withheld)
            if context.stopped.is_set():
                # Before the next phase begins, by which it would be seen that the agent had ended by itself.
                raise InfraError("interrupted", "the run was stopped from outside")
            require_calm(day)
        with clock.phase("snapshot"):
            snapshot = folder.take_snapshot(context.trace(cell) / "workspace.json")
            if phase.stop_reason == "disk_limit":
                # Until now, a full disk was the agent's doing.
                clock.room_since = time.monotonic()
        with clock.phase("judge"):
            grading = settle(folder, folder.grade())
        require_same_files(cell, context)
        evidence = Evidence(
            cell.case.spec, phase, snapshot, grading, snapshot.changed, context.trace(cell) / "calls.jsonl"
        )
        finished = Finished(clock, judged(evidence))
        # Moved, and so looked at before.
        if context.keep_workspaces:
            folder.keep(snapshot.folder, context.trace(cell) / "workspace")
        return finished
    finally:
        # Before what has filled it goes.
        context.space.look()
        discard([scratch, context.socket_folder(cell)])


def _overlay(cell: Cell, place: Path) -> Overlay | None:
    """What the agent knows of the case's answers; place: where a wrong one is laid out."""
    case = cell.case
    if cell.agent.sees_wrong_answer:
        return Overlay(*materialise(case, telling_answer(case), place))
    return Overlay(case.part("solution"), case.spec.solution.run) if cell.agent.sees_solution else None
