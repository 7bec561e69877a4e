"""How long planning 100 agents x 50 cases x 3 trials takes, and how near the shards come to the bound.

    python -m tests.benchmarks.planning

Reading the folders of agents and cases from disk, and their digests, are part of the time; the price of a history from
the results branch is that of its index (tests.benchmarks.results_scale).
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import yaml

from bench.base.install import DataFolders
from bench.plan.document import plan_document
from bench.plan.estimate import Estimate, History
from bench.plan.experiment import Experiment
from bench.plan.selection import expand_experiment
from bench.plan.shards import PlannedJob, github_matrix, lower_bound, packed_shards
from tests.helpers.cells import ROOT, make_agent, make_case, write_files

AGENTS, CASES, TRIALS = 100, 50, 3


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        places = _places(Path(name))
        for seed in range(3):
            _plan(places, random.Random(seed))


def _places(root: Path) -> DataFolders:
    names = [f"case_{number}" for number in range(CASES)]
    for number, case in enumerate(names):
        make_case(root / "cases", id=case, needs={"gpu": number % 5 == 0})
    suite = {"id": "all", "version": "2026.11", "title": "all", "cases": names, "trials": TRIALS}
    write_files(root / "cases" / "suites", {"all.yaml": yaml.safe_dump(suite)})
    for number in range(AGENTS):
        make_agent(root / "agents", "pass", f"agent-{number}", models={"main": "openai/x"})
    return DataFolders(cases=root / "cases", agents=root / "agents", site=ROOT / "site", cache=root / "cache")


def _plan(places: DataFolders, draw: random.Random) -> None:
    machines = [
        {"name": "cpu", "cpus": 4, "memory_mb": 16_000, "usd_per_hour": 0.2},
        {"name": "gpu", "cpus": 8, "memory_mb": 64_000, "gpus": 1, "usd_per_hour": 1.2},
    ]
    agents = [str(folder) for folder in sorted(places.agents.iterdir())]
    asked = Experiment.model_validate({"suites": ["all"], "agents": agents, "machines": machines})
    began = time.perf_counter()
    parts = expand_experiment(asked, places)
    history = History()
    for cell in parts[0].cells:
        history.estimate(cell)
    # Times as wide as real ones: half of them under three minutes, a few near the hour.
    took = {(cell.agent.id, cell.case.id): min(draw.lognormvariate(5, 1), 3600) for cell in parts[0].cells}
    jobs = [
        PlannedJob(part.run, index, cell, Estimate(took[cell.agent.id, cell.case.id], 0.3, "measured"))
        for part in parts
        for index, cell in enumerate(part.cells)
    ]
    made = packed_shards(jobs, asked)
    text = plan_document(asked, parts, made, "docker").model_dump_json(by_alias=True)
    output = github_matrix(made)
    seconds = time.perf_counter() - began
    sizes = f"plan.json {len(text) / 1e6:.1f} MB, matrix {len(output) / 1e3:.0f} kB"
    print(f"{len(jobs)} cells, {len(made)} shards: {seconds:.2f} s; {sizes}")
    for machine in asked.machines:
        own = [batch for batch in made if batch.machine == machine]
        slots = own[0].slots
        times = [job.estimate.seconds for batch in own for job in batch.jobs]
        longest = max(batch.seconds for batch in own) - machine.setup_s
        bound = lower_bound(times, len(own) * slots)
        lanes = f"{len(own)} shards with {slots} side by side"
        print(f"  {machine.name}: {lanes}, makespan {longest:.0f} s, {longest / bound:.4f} of the bound")


if __name__ == "__main__":
    main()
