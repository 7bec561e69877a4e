"""Repair of a run folder: damaged records are set aside, a damaged plan is restored, before a runner continues."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import Checksums, sha256_file, write_atomic
from bench.formats.plan import Cell
from bench.formats.run_folder import COPY, PLAN, RunFolder, read_record, writing


def repair(run: RunFolder, cells: Sequence[Cell]) -> list[str]:
    """Set aside each file that is not a record of this run, so that its cell runs again; restore the plan.

    The caller holds the folder's lock. Returns one line for each repair.
    """
    with writing(run.path):
        return [*_repair_plan(run), *_repair_records(run, {f"{cell.slug}.json": cell.id for cell in cells})]


def _repair_records(run: RunFolder, cells: dict[str, str]) -> list[str]:
    known = Checksums(run.path).known()
    said = []
    for path in run.record_files():
        # Checksums are known by the name at writing; a record set aside as an earlier try has another name now.
        fault = _fault(path, known.get(f"cells/{path.name}"), cells.get(path.name))
        if fault:
            said.append(f"{path}: {fault}; kept as {_put_aside(path).name}, and its cell runs again")
    return said


def _fault(path: Path, sums: set[str] | None, cell: str | None) -> str:
    """What is wrong with the record at `path`; empty: nothing."""
    try:
        record = read_record(path)
    except UserError as error:
        return str(error).removeprefix(f"{path}: ")
    if sums is not None and sha256_file(path) not in sums:
        return "is not what was written here"
    return f"is the record of {record.cell}" if cell not in (None, record.cell) else ""


def _repair_plan(run: RunFolder) -> list[str]:
    said = []
    for name, other in ((PLAN, COPY), (COPY, PLAN)):
        try:
            run.plan_in(name)
        except UserError as fault:
            if _restore(run, name, other) and name == PLAN:
                said.append(f"{fault}; restored from {other}")
    return said


def _restore(run: RunFolder, name: str, other: str) -> bool:
    try:
        run.plan_in(other)
    except UserError:
        return False
    write_atomic(run.path / name, (run.path / other).read_bytes())
    return True


def _put_aside(path: Path) -> Path:
    """Rename the file, so that it is not read as a record."""
    number = 1
    while (other := path.with_name(f"{path.name}.broken{number}")).exists():
        number += 1
    return path.rename(other)
