"""A campaign: attacks against cases in one sandbox, several side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from bench.attack.catalogue import Attack, Base
from bench.attack.stage import Stage, Task, attacked_answers
from bench.attack.trial import Baseline, Result, Trial
from bench.base.errors import InfraError
from bench.base.files import temporary_folder
from bench.base.install import DataFolders
from bench.base.text import printable
from bench.cell import CellContext, run_cell, unmet_needs
from bench.formats.agent_lookup import find_agent
from bench.formats.case import Case
from bench.formats.plan import Cell
from bench.formats.provenance import Provenance
from bench.formats.record import Record
from bench.report import outcome_line
from bench.sandbox import Sandbox

Item = TypeVar("Item")
Done = TypeVar("Done")
_UNTOUCHED = Baseline({})
_TRIES = 5


class Campaign:
    """All trials of one sandbox."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._baselines: dict[tuple[str, str], Baseline] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = {}
        self._lock = threading.Lock()

    def run(self, tasks: Sequence[Task], jobs: int, tell: Callable[[Result], None]) -> list[Result]:
        """Results of all tasks in their order; `tell` hears of each as it comes."""
        lock = threading.Lock()

        def work(task: Task) -> list[Result]:
            results = self._trial(task)
            with lock:
                for result in results:
                    tell(result)
            return results

        return [result for results in side_by_side(work, tasks, jobs) for result in results]

    def _trial(self, task: Task) -> list[Result]:
        needs = task.case.for_profile(task.case.profiles[0]).spec.needs
        try:
            if unmet := unmet_needs(needs):
                raise InfraError("needs_missing", unmet)
            for _ in range(_TRIES):
                results = Trial(self._stage, task).run(self._baseline(task))
                # On a machine that others load everything takes long, and a training has luck, with an attack as
                # without one: what an attack really achieves, it achieves each time.
                if any(result.only_partly for result in results):
                    self._baseline(task, again=True)
                elif not any(result.only_slow for result in results):
                    break
            return results
        except (InfraError, OSError) as fault:
            # A trial that could not be carried out shows nothing: it counts as an escape, and the others go on.
            sandbox = self._stage.context.sandbox.name
            reason = [f"it was not carried out: {fault}"[:800]]
            return [Result(it.id, task.case.id, task.base, sandbox, reason) for it in task.attacks]

    def _baseline(self, task: Task, *, again: bool = False) -> Baseline | None:
        """The most that each check was worth without an attack; `again`: measured once more."""
        if task.base == "untouched":
            return _UNTOUCHED
        if task.base == "solution":
            return None
        key = task.case.id, task.answer
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if again or key not in self._baselines:
                nothing = self._stage.catalogue.select(["idle.nothing"])[0]
                bare = replace(nothing, spec=nothing.spec.model_copy(update={"stops": []}))
                known = self._baselines.get(key, _UNTOUCHED)
                measured = Trial(self._stage, replace(task, attacks=[bare])).measure()
                self._baselines[key] = {name: max(value, known.get(name, 0.0)) for name, value in measured.items()}
            return self._baselines[key]


def side_by_side(work: Callable[[Item], Done], items: Sequence[Item], jobs: int) -> Iterator[Done]:
    """What `work` makes of each item, in their order, `jobs` at a time; an interruption starts no further one."""
    # Threads, since a cell is a child process; each outlives its sandbox, which would end with it.
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="cell")
    try:
        yield from pool.map(work, items)
        pool.shutdown()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def tasks_of(cases: Sequence[Case], attacks: Sequence[Attack]) -> Iterator[Task]:
    """One task a case, attack and base; attacks that leave the workspace as it is share one."""
    bases: Sequence[Base] = ("untouched", "wrong", "solution")
    for case in cases:
        for model in (False, True):
            quiet = [it for it in attacks if it.spec.shared and it.spec.model == model]
            if quiet:
                yield Task(case, quiet, "untouched")
        for base in bases:
            for answer in attacked_answers(case) if base == "wrong" else [""]:
                for attack in attacks:
                    if not attack.spec.shared and base in attack.spec.over:
                        yield Task(case, [attack], base, answer)


@dataclass(frozen=True)
class Honest:
    """The cell of a solution, with everything that was wrongly held against it."""

    case: str
    trial: int
    outcome: str
    alarms: tuple[str, ...]

    def line(self) -> str:
        """For a terminal or a log."""
        return f"{'FLAGGED' if self.alarms else 'ok     '} {self.outcome}{printable('; '.join(['', *self.alarms]))}"


def honest_cells(
    cases: Sequence[Case], folders: DataFolders, sandbox: Sandbox, trials: int, jobs: int
) -> Iterator[Honest]:
    """Every case's solution, `trials` times, as cells of the agent `oracle`."""
    oracle = find_agent("oracle", folders.agents)
    provenance = Provenance(bench_version="", run="honest", sandbox=sandbox.name, isolated=sandbox.isolated)
    cells = [Cell(oracle, {}, case, case.profiles[0], trial) for trial in range(1, trials + 1) for case in cases]
    with temporary_folder("honest") as folder:
        context = CellContext(folder / "run", folder / "s", folders, sandbox, provenance, "honest", {})
        for record in side_by_side(lambda cell: run_cell(cell, context), cells, jobs):
            yield Honest(record.case.id, record.trial, outcome_line(record), tuple(_alarms(record)))


def _alarms(record: Record) -> Iterator[str]:
    if record.outcome != "graded" or not record.success:
        failed = "; ".join(f"{check.id}: {check.message[:200]}" for check in record.checks if not check.passed)
        yield f"the solution does not succeed: {record.outcome}, score {record.score} {failed or record.error[:300]}"
    for note in (*record.flags, *record.failure_modes):
        yield f"{note.name}: {note.evidence}"
    for earlier in record.tries:
        yield f"a second try was needed: {earlier.cause}"
