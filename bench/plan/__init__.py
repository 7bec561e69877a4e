"""From what is asked for to cells, and from cells to shards that machines run.

`make_plan` and `expand_experiment` lay out the grid, `History` estimates it, `packed_shards` packs it.
Nothing here runs anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.plan.arms import expand_arms, make_arms
    from bench.plan.document import check_budget, expected_of, plan_document, with_agents_below
    from bench.plan.estimate import NEWEST, History, all_replayed, model_key, paid_usd
    from bench.plan.experiment import Experiment, find_experiment, load_experiment
    from bench.plan.missing import missing_cells
    from bench.plan.rounds import packed_rounds
    from bench.plan.selection import (
        Request,
        RunCells,
        bounded_name,
        cells_of,
        expand_experiment,
        make_plan,
        select_cells,
    )
    from bench.plan.shards import (
        PackedShard,
        PlannedJob,
        check_job_limits,
        github_matrix,
        machine_for,
        packed_shards,
        skipped_cells,
    )
    from bench.plan.spread import Seen
else:
    __getattr__ = lazy_face(__name__)
