"""Honest work is never flagged: every solution as real cells of the oracle, several trials each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.agent import find_agent
from bench.attack.campaign import side_by_side
from bench.case import Case
from bench.cell import Cell, RunContext
from bench.cli.progress import outcome_line, printable
from bench.places import Places
from bench.record import Provenance, Record
from bench.run import run_cell
from bench.sandbox.job import Sandbox
from bench.temporary import temporary_folder


@dataclass(frozen=True)
class Honest:
    """What a solution's cell was said of, beyond its success."""

    case: str
    trial: int
    outcome: str
    alarms: tuple[str, ...]

    def line(self) -> str:
        """For a terminal or a log."""
        return f"{'FLAGGED' if self.alarms else 'ok     '} {self.outcome}{printable('; '.join(['', *self.alarms]))}"


def honest_cells(cases: Sequence[Case], places: Places, sandbox: Sandbox, trials: int, jobs: int) -> Iterator[Honest]:
    """Every case's solution, `trials` times, as cells of the agent `oracle`."""
    oracle = find_agent("oracle", places.agents)
    provenance = Provenance(bench_version="", run="honest", sandbox=sandbox.name, isolated=sandbox.isolated)
    cells = [Cell(oracle, {}, case, case.spec.profiles[0], trial) for trial in range(1, trials + 1) for case in cases]
    with temporary_folder("honest") as folder:
        context = RunContext(folder / "run", folder / "s", places, sandbox, provenance, "honest", {})
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
