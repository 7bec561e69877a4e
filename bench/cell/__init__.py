"""One cell: from a fresh workspace to a stored record.

`run_cell` is the heart (`run`); `CellContext` is what all cells of a run share.
Each phase has a module: start_state, workspace, agent_phase, diagnosis, recorder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.cell.agent_job import Overlay
    from bench.cell.agent_phase import AgentPhase, run_agent
    from bench.cell.arbitration import settle
    from bench.cell.ask import Helper, ScriptedHelper
    from bench.cell.context import CellContext, Clock
    from bench.cell.diagnosis import Evidence
    from bench.cell.environment import agent_python
    from bench.cell.gpus import leased_gpu
    from bench.cell.interpreter import find_interpreter, own_interpreter
    from bench.cell.machine import DiskSpace, this_machine
    from bench.cell.needs import unmet_needs
    from bench.cell.origins import SHARED_CACHE, SharedCache
    from bench.cell.recorder import Finished, judged, write_record
    from bench.cell.run import run_cell
    from bench.cell.shares import RunShares
    from bench.cell.snapshot import Snapshot
    from bench.cell.sources import FetchProgress, SourceCache, Wanted, sources_of, wanted_sources
    from bench.cell.start_state import build_data, prepare_start
    from bench.cell.watch import CellWatch
    from bench.cell.workspace import CellFolder
else:
    __getattr__ = lazy_face(__name__)
