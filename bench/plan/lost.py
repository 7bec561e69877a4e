"""What an earlier run has lost: planned once more under the run's own name, so that its records complete it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench.places import Places
from bench.plan.document import read_plan_file
from bench.plan.expand import Part
from bench.plan.request import cells_of
from bench.record import Record
from bench.rundir import RunFolder, RunPlan
from bench.suite import load_suite


def lost_parts(earlier: Path, records: Iterable[Record], places: Places) -> list[Part]:
    """The cells without a verdict of a run folder, or of a plan.json among `records`; raises `UserError`.

    An agent or a case that has changed since is an error: records of two versions are never mixed.
    """
    if earlier.is_dir():
        folder = RunFolder(earlier)
        return [_lost(folder.read_plan(), folder.records(), places)]
    known = list(records)
    return [_lost(plan, known, places) for plan in read_plan_file(earlier).runs]


def _lost(plan: RunPlan, records: Iterable[Record], places: Places) -> Part:
    graded = {it.cell for it in records if it.outcome == "graded" and it.provenance.run == plan.run}
    cells = [cell for cell in cells_of(plan, places) if cell.id not in graded]
    return Part(plan.run, load_suite(places.cases, plan.suite), plan.profile, cells)
