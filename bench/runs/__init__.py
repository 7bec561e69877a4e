"""Many cells: a whole run, its repair after damage, and a person's attempt at one case.

`write_plan` begins a run, `run_plan` carries it out and goes on where a killed runner stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.runs.execute import Options as Options
    from bench.runs.execute import RunObserver as RunObserver
    from bench.runs.execute import plan_and_run as plan_and_run
    from bench.runs.execute import run_plan as run_plan
    from bench.runs.human import Desk as Desk
    from bench.runs.human import find_desk as find_desk
    from bench.runs.human import open_desk as open_desk
    from bench.runs.human import open_shell as open_shell
    from bench.runs.human import start_attempt as start_attempt
    from bench.runs.human import submit_attempt as submit_attempt
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "execute": "Options RunObserver plan_and_run run_plan",
            "human": "Desk find_desk open_desk open_shell start_attempt submit_attempt",
        },
    )
