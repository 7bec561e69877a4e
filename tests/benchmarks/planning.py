"""How long planning 100 agents x 50 cases x 3 trials takes, how near the shards come to the bound, and promises kept.

    python -m tests.benchmarks.planning             # all of it
    python -m tests.benchmarks.planning promises    # of the time of shards

A promise is kept where the shard is done by its time. The true times have what plans do not know: their shape, a spread
that differs between cases, and nights that are slow for all cells.

Reading the folders of agents and cases from disk, and their digests, are part of the time; the price of a history from
the results branch is that of its index (tests.benchmarks.results_scale).
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import yaml

from bench.base.install import DataFolders
from bench.plan.document import plan_document
from bench.plan.estimate import Estimate, History
from bench.plan.experiment import Experiment
from bench.plan.packing import lower_bound
from bench.plan.selection import expand_experiment
from bench.plan.shards import PlannedJob, github_matrix, packed_shards, wall_seconds
from bench.plan.spread import Floats, Seen
from bench.stats.intervals import wilson
from tests.helpers.cells import ROOT, make_agent, make_case, write_files

AGENTS, CASES, TRIALS = 100, 50, 3
PLANS = 40
"""Of a setting of promises."""


SHAPES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "lognormal": lambda rng, n: rng.standard_normal(n),
    "heavy tail": lambda rng, n: rng.standard_t(4, n) / 2**0.5,
    "gives up": lambda rng, n: np.where(rng.random(n) < 0.2, -3.0, 0.3) + 0.3 * rng.standard_normal(n),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        places = _places(Path(name))
        if "promises" not in sys.argv[1:]:
            for seed in range(3):
                _plan(places, random.Random(seed))
        for shape, draw in SHAPES.items():
            for nights, trials in ((1, 3), (5, 1), (10, 2)):
                for night_sd in (0.0, 0.2):
                    kept, shards, in_time, plans = promises_kept(places, draw, nights, trials, night_sd, PLANS)
                    of_shards, of_plans = wilson(kept / shards, shards), wilson(in_time / plans, plans)
                    print(
                        f"{shape:10} {nights:2} nights x {trials}, night sd {night_sd:g}: shards {kept / shards:.1%} "
                        f"[{of_shards.low:.1%}, {of_shards.high:.1%}] n={shards}; the last one {in_time / plans:.1%} "
                        f"[{of_plans.low:.1%}, {of_plans.high:.1%}] n={plans}",
                        flush=True,
                    )


def promises_kept(
    places: DataFolders,
    draw: Callable[[np.random.Generator, int], Floats],
    nights: int,
    trials: int,
    night_sd: float,
    plans: int,
) -> tuple[int, int, int, int]:
    """Shards that were done in time, of so many; and the same for the last shard of a plan. One true night a plan."""
    agent = str(sorted(places.agents.iterdir())[0])
    machine = {"name": "cpu", "cpus": 2, "memory_mb": 64_000, "gpus": 2}
    asked = Experiment.model_validate({"suites": ["all"], "agents": [agent], "trials": 3, "machines": [machine]})
    cells = expand_experiment(asked, places)[0].cells
    kept = shards = in_time = 0
    for seed in range(plans):
        rng = np.random.default_rng([7, seed])
        centres = {cell.case.id: rng.normal(5.5, 1.0) for cell in cells}
        spreads = {cell.case.id: rng.uniform(0.1, 0.8) for cell in cells}
        shifts = rng.normal(0, night_sd, nights)
        seen = {
            (cells[0].agent.id, "main=openai/x", case, "mini"): [
                Seen(float(np.exp(centre + shift + spreads[case] * it)), 1.0, f"night-{night}")
                for night, shift in enumerate(shifts)
                for it in draw(rng, trials)
            ]
            for case, centre in centres.items()
        }
        history = History(
            exact={key: (float(np.median([it.seconds for it in times])), 0.1) for key, times in seen.items()}, seen=seen
        )
        jobs = [PlannedJob("run", index, cell, history.estimate(cell)) for index, cell in enumerate(cells)]
        made = packed_shards(jobs, asked)
        tonight = rng.normal(0, night_sd)
        done = []
        for batch in made:
            cases = [job.cell.case.id for job in batch.jobs]
            took = [float(np.exp(centres[it] + tonight + spreads[it] * draw(rng, 1)[0])) for it in cases]
            done.append(_finish(took, batch.slots) + batch.machine.setup_s)
        kept += sum(end <= batch.seconds for end, batch in zip(done, made, strict=True))
        shards += len(made)
        in_time += max(done) <= wall_seconds(made)
    return kept, shards, in_time, plans


def _finish(took: Sequence[float], slots: int) -> float:
    free = [0.0] * slots
    for seconds in took:
        free[free.index(min(free))] += seconds
    return max(free)


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
