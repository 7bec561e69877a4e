"""Many cells: a whole run, its repair after damage, and a person's attempt at one case.

`write_plan` begins a run, `run_plan` carries it out and goes on where a killed runner stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.runs.events import EventLog
    from bench.runs.execute import Arms, Options, check_run, plan_and_run, run_plan
    from bench.runs.gate import (
        Claims,
        Gate,
        changed_paths,
        gate_verdict,
        git,
        merge_base,
        open_gate,
        require_current_rules,
    )
    from bench.runs.human import Desk, find_desk, open_desk, open_shell, start_attempt, submit_attempt
    from bench.runs.observer import RunObserver
    from bench.runs.preflight import NotReady, require_files, require_ready
    from bench.runs.rounds import LookLedger, cells_not_due, design_of, needless_cells, rounds_of
    from bench.runs.seeds import close_drawn, find_secret, keep_secret, new_secret, reveal_seeds, secret_beside
    from bench.runs.shard_rounds import cells_due, look_at_rounds
    from bench.runs.step_scores import score_steps
else:
    __getattr__ = lazy_face(__name__)
