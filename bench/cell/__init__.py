"""One cell: from a fresh workspace to a stored record.

`run_cell` is the heart (`run`); `CellContext` is what all cells of a run share.
Each phase has a module: start_state, workspace, agent_phase, diagnosis, recorder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.cell.agent_phase import AgentPhase as AgentPhase
    from bench.cell.agent_phase import Overlay as Overlay
    from bench.cell.agent_phase import run_agent as run_agent
    from bench.cell.context import CellContext as CellContext
    from bench.cell.context import Clock as Clock
    from bench.cell.diagnosis import Evidence as Evidence
    from bench.cell.environment import agent_python as agent_python
    from bench.cell.machine import DiskSpace as DiskSpace
    from bench.cell.machine import this_machine as this_machine
    from bench.cell.recorder import Finished as Finished
    from bench.cell.recorder import judged as judged
    from bench.cell.recorder import write_record as write_record
    from bench.cell.run import run_cell as run_cell
    from bench.cell.services import running_services as running_services
    from bench.cell.start_state import StartState as StartState
    from bench.cell.start_state import build_data as build_data
    from bench.cell.start_state import fingerprint as fingerprint
    from bench.cell.start_state import prepare_start as prepare_start
    from bench.cell.start_state import require_same as require_same
    from bench.cell.start_state import seed_secret as seed_secret
    from bench.cell.workspace import Snapshot as Snapshot
    from bench.cell.workspace import prepare as prepare
    from bench.cell.workspace import take_snapshot as take_snapshot
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "agent_phase": "AgentPhase Overlay run_agent",
            "context": "CellContext Clock",
            "diagnosis": "Evidence",
            "environment": "agent_python",
            "machine": "DiskSpace this_machine",
            "recorder": "Finished judged write_record",
            "run": "run_cell",
            "services": "running_services",
            "start_state": "StartState build_data fingerprint prepare_start require_same seed_secret",
            "workspace": "Snapshot prepare take_snapshot",
        },
    )
