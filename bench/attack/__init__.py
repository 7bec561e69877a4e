"""Trying to cheat every case in every way that is not the case's own: `cases verify --attacks`.

A `Campaign` carries out the catalogue's attacks in real cells; `honest_cells` shows that honest work is not flagged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.attack.campaign import Campaign, honest_cells, tasks_of
    from bench.attack.catalogue import load_catalogue
    from bench.attack.leaks import groups_of_this_process
    from bench.attack.listeners import enter_own_network
    from bench.attack.matrix import (
        Everything,
        matrix_line,
        matrix_summary,
        read_matrix,
        with_results,
        write_matrix,
    )
    from bench.attack.stage import open_stage
    from bench.attack.trial import Result, starts
else:
    __getattr__ = lazy_face(__name__)
