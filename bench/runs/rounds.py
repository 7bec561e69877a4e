"""A sequential experiment in one run: rounds of cells, one look after each, and the ledger of looks beside the run.

A round that was looked at is closed: its cells do not run again, and it is not looked at again, whatever is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

# By its face: what a look needs is imported when one is taken, and most runs take none.
from bench import stats
from bench.base.errors import UserError
from bench.base.files import Checksums, sha256_bytes, write_atomic
from bench.base.model import parse_json
from bench.formats.plan import Cell, RunPlan
from bench.formats.provenance import Sequential
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder, writing
from bench.report import look_line

LEDGER = "looks.jsonl"
_MOST_ROUNDS = 50
_REMEDY = "start a new run: looking again would raise the chance of a false alarm"


def rounds_of(trials: int | None) -> int:
    """The most rounds, from the trials that were asked for; raises `UserError`."""
    rounds = stats.ROUNDS if trials is None else trials
    if not 2 <= rounds <= _MOST_ROUNDS:
        raise UserError(
            f"{rounds} trials, and rounds are 2 to {_MOST_ROUNDS}",
            where="--until-decided",
            remedy=f"give --trials, which is the most rounds there can be; without it there are {stats.ROUNDS}",
        )
    return rounds


def design_of(cells: Sequence[Cell]) -> Sequential:
    """What is fixed before the first of these cells of two arms runs; raises `UserError`."""
    cases, rounds = {cell.case.id for cell in cells}, {cell.trial for cell in cells}
    if len(cells) != 2 * len(cases) * len(rounds):
        raise UserError("more than one model", where="--until-decided", remedy="compare with one model at a time")
    if len(cases) < 2:
        raise UserError(f"{len(cases)} case", where="--until-decided", remedy="take two cases or more, best 50")
    return stats.make_sequential(len(cases), len(rounds))


class LookLedger:
    """The looks of a run, a line each, written whole or not at all and never changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / LEDGER

    def looks(self) -> list[stats.Look]:
        """Those that were made, by round; raises `UserError` for a ledger that is not what was written."""
        data = self._path.read_bytes() if self._path.exists() else b""
        known = Checksums(self._folder).known().get(LEDGER, set())
        if data and sha256_bytes(data) not in known:
            raise UserError("does not match its checksum in SHA256SUMS", where=self._path, remedy=_REMEDY)
        # The digest is noted before the file is written: one alone may be of a runner that was killed in between.
        if not data and len(known) > 1:
            raise UserError("is gone, and looks were made", where=self._path, remedy=_REMEDY)
        found = [parse_json(line, stats.Look, where=self._path, remedy=_REMEDY) for line in data.splitlines()]
        if [look.round for look in found] != list(range(1, len(found) + 1)):
            raise UserError("does not hold each round once, in their order", where=self._path, remedy=_REMEDY)
        return found

    def append(self, look: stats.Look) -> None:
        """Write down a look before anything follows from it."""
        data = self._path.read_bytes() if self._path.exists() else b""
        data += look.model_dump_json(by_alias=True).encode() + b"\n"
        with writing(self._folder):
            Checksums(self._folder).add(LEDGER, data)
            write_atomic(self._path, data)


def run_rounds(
    cells: Sequence[Cell],
    design: Sequential,
    folder: RunFolder,
    run: Callable[[Sequence[Cell]], list[Record]],
    tell: Callable[[str], None],
) -> list[Record]:
    """Run round after round, by `run`, until a look decides; returns the records of the rounds that ran.

    A round that cannot be looked at ends it without a verdict: another start runs what the round has lost. Raises
    `UserError` where records of a closed round are not those that were looked at.
    """
    ledger = LookLedger(folder.path)
    made = ledger.looks()
    # Of no cell: that repairs the folder, closed rounds too.
    records = run(())
    for number in range(1, design.rounds + 1):
        own = [cell for cell in cells if cell.trial == number]
        if number <= len(made):
            records += _closed(folder, own)
            look = stats.look_at(design, records, number) if not stats.round_fault(design, records, number) else None
            if look != made[number - 1]:
                fault = f"round {number} was looked at, and its records or rules have changed since"
                raise UserError(fault, where=folder.path, remedy=_REMEDY)
        else:
            records += run(own)
            if fault := stats.round_fault(design, records, number):
                tell(f"no look: {fault}")
                break
            look = stats.look_at(design, records, number)
            ledger.append(look)
        tell(look_line(look, design))
        if look.decision != "go on":
            break
    return records


def _closed(folder: RunFolder, cells: Sequence[Cell]) -> list[Record]:
    """The records of a round that was looked at, as far as they are there."""
    wanted = {cell.id for cell in cells}
    return [record for record in folder.records() if record.cell in wanted]


def cells_not_due(plan: RunPlan, records: Sequence[Record]) -> set[str]:
    """The planned cells of rounds after the last one that ran: whether they ever run, the looks decide."""
    if plan.sequential is None:
        return set()
    first = min((planned.trial for planned in plan.cells), default=1)
    last = max((record.trial for record in records if record.provenance.run == plan.run), default=first)
    return {planned.cell for planned in plan.cells if planned.trial > last}


def needless_cells(plan: RunPlan, records: Sequence[Record]) -> set[str]:
    """The planned cells that a verdict has spared: those of the rounds after it."""
    if plan.sequential is None:
        return set()
    state = stats.sequential_state(record for record in records if record.provenance.run == plan.run)
    if state is None or not state.verdict:
        return set()
    return {planned.cell for planned in plan.cells if planned.trial > len(state.looks)}
