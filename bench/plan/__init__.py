"""From what is asked for to cells, and from cells to shards that machines run.

`make_plan` and `expand_experiment` lay out the grid, `History` estimates it, `packed_shards` packs it.
Nothing here runs anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.plan.document import check_budget as check_budget
    from bench.plan.document import expected_of as expected_of
    from bench.plan.document import plan_document as plan_document
    from bench.plan.estimate import NEWEST as NEWEST
    from bench.plan.estimate import History as History
    from bench.plan.estimate import Measured as Measured
    from bench.plan.estimate import model_key as model_key
    from bench.plan.experiment import Experiment as Experiment
    from bench.plan.experiment import load_experiment as load_experiment
    from bench.plan.selection import Plan as Plan
    from bench.plan.selection import Request as Request
    from bench.plan.selection import cells_of as cells_of
    from bench.plan.selection import expand_experiment as expand_experiment
    from bench.plan.selection import make_plan as make_plan
    from bench.plan.selection import missing_cells as missing_cells
    from bench.plan.selection import select_cells as select_cells
    from bench.plan.shards import PlannedJob as PlannedJob
    from bench.plan.shards import github_matrix as github_matrix
    from bench.plan.shards import packed_shards as packed_shards
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "document": "check_budget expected_of plan_document",
            "estimate": "History Measured NEWEST model_key",
            "experiment": "Experiment load_experiment",
            "selection": "Plan Request cells_of expand_experiment make_plan missing_cells select_cells",
            "shards": "PlannedJob github_matrix packed_shards",
        },
    )
