"""Trying to cheat every case in every way that is not the case's own: `cases verify --attacks`.

A `Campaign` carries out the catalogue's attacks in real cells; `honest_cells` shows that honest work is not flagged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.attack.campaign import Campaign as Campaign
    from bench.attack.campaign import honest_cells as honest_cells
    from bench.attack.campaign import tasks_of as tasks_of
    from bench.attack.catalogue import load_catalogue as load_catalogue
    from bench.attack.leaks import groups_of_this_process as groups_of_this_process
    from bench.attack.listeners import enter_own_network as enter_own_network
    from bench.attack.matrix import matrix_line as matrix_line
    from bench.attack.matrix import matrix_summary as matrix_summary
    from bench.attack.matrix import write_page as write_page
    from bench.attack.stage import open_stage as open_stage
    from bench.attack.trial import Result as Result
    from bench.attack.trial import starts as starts
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "campaign": "Campaign honest_cells tasks_of",
            "catalogue": "load_catalogue",
            "leaks": "groups_of_this_process",
            "listeners": "enter_own_network",
            "matrix": "matrix_line matrix_summary write_page",
            "stage": "open_stage",
            "trial": "Result starts",
        },
    )
