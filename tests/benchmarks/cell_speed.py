"""How long one hello-world cell takes, from fresh workspace to stored record, and where the time goes.

    python tests/benchmarks/cell_speed.py --cells 50 [--sandbox bubblewrap]

Prints medians by phase, the wall time of all cells with one worker, and the runner's own CPU time a cell (its
bookkeeping: everything but the agent's, judge's and subject's processes), next to a fixed loop that tells how
busy the machine was.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path

from bench.base.install import find_data_folders
from bench.cell.context import CellContext
from bench.cell.run import run_cell
from bench.formats.agent_lookup import find_agent
from bench.formats.case import load_cases
from bench.formats.plan import Cell
from bench.formats.provenance import Provenance
from bench.formats.record import Record
from bench.formats.run_folder import RunFolder
from bench.sandbox import end_orphans
from bench.sandbox.choose import choose_sandbox


def calibration_ms() -> float:
    """A fixed loop: about the same everywhere on an idle machine of one kind."""
    began = time.perf_counter()
    sum(number * number for number in range(1_000_000))
    return (time.perf_counter() - began) * 1000


def own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(cells: int, sandbox_name: str, folder: Path) -> dict[str, object]:
    places = find_data_folders()
    sandbox = choose_sandbox(sandbox_name)
    case = load_cases(places.cases, ["hello_world"])[0]
    agent = find_agent("oracle", places.agents)
    run = RunFolder(folder / "run")
    provenance = Provenance(bench_version="0", run="speed", sandbox=sandbox.name, isolated=sandbox.isolated)
    context = CellContext(run.path, run.sockets, places, sandbox, provenance, "2026.11", {})
    walls: list[float] = []
    records: list[Record] = []
    with run.locked(end_orphans):
        run_cell(Cell(agent, {}, case, "mini", 1), context)
        cpu, began = own_cpu_s(), time.perf_counter()
        for trial in range(1, cells + 1):
            start = time.perf_counter()
            records.append(run_cell(Cell(agent, {}, case, "mini", trial), context))
            walls.append(time.perf_counter() - start)
        total, cpu = time.perf_counter() - began, own_cpu_s() - cpu
    assert all(record.success for record in records), "a hello-world cell of the oracle failed"
    phases = {
        name: statistics.median(phase.seconds for record in records for phase in record.phases if phase.name == name)
        for name in ("prepare", "agent", "snapshot", "judge")
    }
    median = statistics.median(walls)
    return {
        "sandbox": sandbox.name,
        "cells": cells,
        "median_ms": round(median * 1000, 1),
        "p90_ms": round(sorted(walls)[int(0.9 * (cells - 1))] * 1000, 1),
        "total_s": round(total, 2),
        "own_cpu_ms_a_cell": round(cpu / cells * 1000, 1),
        "phase_median_ms": {name: round(seconds * 1000, 1) for name, seconds in phases.items()},
        "rest_ms": round((median - sum(phases.values())) * 1000, 1),
        "calibration_ms": round(calibration_ms(), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=50)
    parser.add_argument("--sandbox", default="auto", choices=["auto", "docker", "bubblewrap", "process"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mldb-speed-") as folder:
        print(json.dumps(measure(arguments.cells, arguments.sandbox, Path(folder)), indent=1))


if __name__ == "__main__":
    main()
