"""Traces are read apart from the runner: what an agent has said to its model is as long and as odd as it likes."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bench.judge import Envelope, run_fork
from bench.sandbox import base_environment

_CPU_S, _WALL_S, _MEMORY_MB = 20.0, 300.0, 1024


def read_modes(ledger: Path, *, ended_by_itself: bool, unimproved: bool) -> tuple[list[tuple[str, str]], str]:
    """`modes_of_trace`, within bounds of time and memory, and why there are none of a trace that could not be read.

    Raises `InfraError` when the judge's server is gone.
    """
    if not ledger.is_file() or ledger.stat().st_size == 0:
        return [], ""
    orders = {"ledger": str(ledger), "facts": {"ended_by_itself": ended_by_itself, "unimproved": unimproved}}
    environment = base_environment(home="/nonexistent", tmp=tempfile.gettempdir(), python=Path(sys.executable), cpus=1)
    envelope = Envelope(_CPU_S, _WALL_S, _MEMORY_MB)
    ended = run_fork("bench.cell.trace_modes", orders, envelope, environment=environment)
    if ended.by != "exit" or ended.code != 0:
        bounds = {"time": f"over {_CPU_S:g} s of CPU time", "memory": f"over {_MEMORY_MB} MiB"}
        return [], f"no failure mode was looked for in the trace: {bounds.get(ended.by, ended.log.strip()[-300:])}"
    return [(name, evidence) for name, evidence in json.loads(ended.answer)], ""
