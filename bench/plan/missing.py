"""What an earlier run still lacks: its cells without a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.base.install import DataFolders
from bench.formats.plan import ANY_SANDBOX, RunPlan, read_plan_file
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.formats.suite import load_suite
from bench.plan.selection import RunCells, cells_of


def missing_cells(earlier: Path, records: Iterable[Record], folders: DataFolders) -> list[RunCells]:
    """The cells without a verdict of a run folder, or of a plan.json among `records`; raises `UserError`.

    An agent or a case that has changed since is an error: records of two versions are never mixed.
    """
    if earlier.is_dir():
        folder = RunFolder(earlier)
        return [_missing(folder.read_plan(), folder.records(), folders)]
    known = list(records)
    return [_missing(plan, known, folders) for plan in read_plan_file(earlier).runs]


def _missing(plan: RunPlan, records: Iterable[Record], folders: DataFolders) -> RunCells:
    own = [it for it in records if it.outcome == "graded" and it.provenance.run == plan.run]
    graded = {it.cell for it in own}
    if plan.sandbox == ANY_SANDBOX and own:
        # What was left to the machines is decided since the first of them ran.
        plan = plan.model_copy(update={"sandbox": own[0].provenance.sandbox})
    cells = [cell for cell in cells_of(plan, folders) if cell.id not in graded]
    return RunCells(plan.run, load_suite(folders.cases, plan.suite), plan.profile, cells, plan)
