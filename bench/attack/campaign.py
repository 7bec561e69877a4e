"""A campaign: attacks against cases in one sandbox, several side by side; its results as lines and as a page."""

from __future__ import annotations

import platform
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from bench import __version__
from bench.attack.catalogue import Attack, Base
from bench.attack.stage import Stage, Task, attacked_answers
from bench.attack.trial import Baseline, Result, Trial
from bench.base.errors import InfraError
from bench.base.files import temporary_folder, write_atomic
from bench.base.install import DataFolders
from bench.base.text import counted, escape, printable
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
_TRIES = 3
_SECTION = "<!-- sandbox {name} -->\n{text}<!-- end of {name} -->\n"
_SECTIONS = re.compile(r"<!-- sandbox (\w+) -->\n(.*?)<!-- end of \1 -->\n", re.DOTALL)


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
                # On a machine that others load everything takes long: what really delays does so each time.
                if not any(result.only_slow for result in results):
                    break
            return results
        except (InfraError, OSError) as fault:
            # A trial that could not be carried out shows nothing: it counts as an escape, and the others go on.
            sandbox = self._stage.context.sandbox.name
            reason = [f"it was not carried out: {fault}"[:800]]
            return [Result(it.id, task.case.id, task.base, sandbox, reason) for it in task.attacks]

    def _baseline(self, task: Task) -> Baseline | None:
        if task.base == "untouched":
            return _UNTOUCHED
        if task.base == "solution":
            return None
        key = task.case.id, task.answer
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._baselines:
                nothing = self._stage.catalogue.select(["idle.nothing"])[0]
                bare = replace(nothing, spec=nothing.spec.model_copy(update={"stops": []}))
                self._baselines[key] = Trial(self._stage, replace(task, attacks=[bare])).measure()
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


def matrix_line(result: Result) -> str:
    """One result for a terminal or a log."""
    over = {"untouched": "", "wrong": ", over the wrong answer", "solution": ", over the solution"}[result.over]
    mark = "held   " if result.held else "ESCAPED"
    why = "" if result.held else f": {'; '.join(result.escapes)[:1500]}"
    flags = f", {', '.join(result.flags)}" if result.flags else ""
    facts = f"{result.sandbox}, {result.stop_reason}{flags}, {result.seconds:.1f} s"
    return printable(f"{mark} {result.attack} on {result.case}{over} ({facts}){why}")


def matrix_summary(results: Sequence[Result]) -> str:
    """Counts: attacks, cases, trials, escapes."""
    escaped = [result for result in results if not result.held]
    attacks, cases = {result.attack for result in results}, {result.case for result in results}
    what = f"{counted(len(attacks), 'attack')} on {counted(len(cases), 'case')}"
    return f"{what}: {counted(len(results), 'trial')}, {counted(len(escaped), 'escape')}"


def write_page(
    path: Path,
    results: Sequence[Result],
    attacks: Sequence[Attack],
    notes: str,
    *,
    every_case: Collection[str] = (),
    every_attack: Collection[str] = (),
) -> None:
    """Put a section of these results into the page for each of their sandboxes.

    A section of the same sandbox goes when all of its cases are in the new one, so that new cases can be tried alone.
    every_case, every_attack: ids of all there are; the page ends with those that no section has.
    """
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    sections: list[tuple[str, str]] = re.findall(
        r"<!-- sandbox (\w+) -->\n(.*?)<!-- end of \1 -->\n", before, re.DOTALL
    )
    for name in sorted({result.sandbox for result in results}):
        own = [result for result in results if result.sandbox == name]
        cases = {result.case for result in own}
        sections = [it for it in sections if it[0] != name or not cases_tried(it[1]) <= cases]
        sections.append((name, _section(name, own, attacks, notes)))
    head = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    sections.sort(key=lambda it: it[0])
    text = head + "".join(_SECTION.format(name=name, text=section) for name, section in sections)
    write_atomic(path, (text + _not_tried(sections, every_case, every_attack)).encode())


def _not_tried(sections: Sequence[tuple[str, str]], cases: Collection[str], attacks: Collection[str]) -> str:
    lines = []
    for name in sorted({name for name, _ in sections}):
        own = [section for other, section in sections if other == name]
        absent = sorted(set(cases).difference(*map(cases_tried, own)))
        # An attack counts as tried where each section of the sandbox has it.
        new = sorted(it for it in attacks if not all(f"\n| `{it}` |" in section for section in own))
        lines += [f"- {name}, cases: {', '.join(absent)}."] if absent else []
        lines += [f"- {name}, attacks: {', '.join(f'`{it}`' for it in new)}."] if new else []
    return "\n".join(["## Not tried yet", "", *lines, ""]) if lines else ""


def cases_tried(section: str) -> set[str]:
    """The cases that a section of the page is about."""
    listed = section.partition("\nCases: ")[2].partition(".")[0]
    return {name.split()[1] for name in listed.split("; ") if name}


def _section(name: str, results: Sequence[Result], attacks: Sequence[Attack], notes: str) -> str:
    cases = sorted({result.case for result in results})
    cells: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        cells[result.attack, result.case].append(result)
    held = sum(result.held for result in results)
    rows = [
        f"| `{attack.id}` | {escape(attack.about)} | {' | '.join(_cell(cells[attack.id, case]) for case in cases)} |"
        for attack in attacks
    ]
    columns = " | ".join(str(number) for number in range(1, len(cases) + 1))
    listed = "; ".join(f"{number} {case}" for number, case in enumerate(cases, 1))
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return "\n".join(
        [
            f"## {name}: {counted(len(cases), 'case')}",
            "",
            f"**{counted(len(results), 'trial')}, {held} held, {len(results) - held} escapes**: "
            f"{counted(len(attacks), 'attack')}, {counted(len(cases), 'case')}. "
            f"{now}, ml-dev-bench {__version__}, Linux {platform.release()}, "
            f"Python {platform.python_version()}; {notes}.",
            "",
            f"Cases: {listed}.",
            "A number counts the trials that were held: over the untouched workspace, a wrong answer (two where a guard"
            " alone refuses one), the solution.",
            "",
            f"| attack | what it does | {columns} |",
            f"|---|---|{'--:|' * len(cases)}",
            *rows,
            "",
            *_evidence(results),
            "",
        ]
    )


def _cell(results: Sequence[Result]) -> str:
    if not results:
        return "-"
    return str(len(results)) if all(it.held for it in results) else "**ESCAPED**"


def _evidence(results: Sequence[Result]) -> list[str]:
    escaped = [result for result in results if not result.held]
    if not escaped:
        return ["Escapes: none."]
    return ["Escapes:", "", *(f"- {escape(matrix_line(result), 700)}" for result in escaped)]
