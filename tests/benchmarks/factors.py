"""How often an interaction with difficulty is named, and how often equal agents pass the noise floor, by simulation.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.factors [--repetitions 400]

*same*: both arms have each case's chance of success. *redrawn*: in each arm a fifth of the cases get another chance.
*hard*: head fails 40% less often than base in every case. The other agents are two, which share base's first chances.
*circular* takes the difficulty from base's very trials. The floor: 20 cases x 2 trials, times of a lognormal sd of 0.1,
and a shift between the arms of each run with the stated sd; how often equal agents differ by more than the floor, in
one direction.
"""

from __future__ import annotations

import argparse

import numpy as np

from bench.stats.factor import by_arms, by_others
from bench.stats.intervals import Floats
from bench.stats.noise_floor import measure_noise
from bench.stats.pairing import Sample, make_sample
from tests.benchmarks.difficulty import MIXTURES, Mixture

DESIGNS = ((10, 3), (20, 3), (50, 3), (50, 5))


def trials(rng: np.random.Generator, chances: Floats, count: int) -> list[Floats]:
    return [(rng.random(count) < chance).astype(float) for chance in chances]


def arms(rng: np.random.Generator, mixture: Mixture, world: str, p: Floats) -> list[Floats]:
    if world == "same":
        return [p, p]
    if world == "hard":
        return [p, p + 0.4 * (1 - p)]
    redrawn = [rng.random(len(p)) < 0.2 for _ in range(2)]
    return [np.where(chosen, mixture.draw(rng, len(p)), p) for chosen in redrawn]


def interactions(
    rng: np.random.Generator, world: str, mixture: Mixture, design: tuple[int, int], repetitions: int
) -> dict[str, float]:
    shown = {"other agents": 0, "arms": 0, "circular": 0}
    cases, count = design
    for _ in range(repetitions):
        p = mixture.draw(rng, cases)
        one, other = arms(rng, mixture, world, p)
        base, head = trials(rng, one, count), trials(rng, other, count)
        means = [np.array([it.mean() for it in side]) for side in (base, head)]
        hard = 1 - np.mean([[it.mean() for it in trials(rng, p, count)] for _ in range(2)], axis=0)
        effects = means[1] - means[0]
        for name, found in (
            ("other agents", by_others(effects, hard, None, 0.05)),
            ("arms", by_arms(base, head, 0.05)),
            ("circular", by_others(effects, 1 - means[0], None, 0.05)),
        ):
            shown[name] += found.verdict.startswith("more")
    return {name: found / repetitions for name, found in shown.items()}


def equal_arms(rng: np.random.Generator, shift: float) -> Sample:
    base = rng.lognormal(0, 0.1, (20, 2))
    head = rng.lognormal(rng.normal(0, shift), 0.1, (20, 2))
    return make_sample([str(n) for n in range(20)], list(base), list(head), ratio=True)


def passes(runs: int, shift: float, repetitions: int) -> float:
    rng = np.random.default_rng(11)
    passed = 0
    for _ in range(repetitions):
        noise = measure_noise([equal_arms(rng, shift) for _ in range(runs)])
        passed += float(equal_arms(rng, shift).differences.mean()) > noise.floor(20, 1.0, 0.05)
    return passed / repetitions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=400)
    repetitions = parser.parse_args().repetitions
    for shift in (0.0, 0.03, 0.1):
        shares = ", ".join(f"{runs} runs {passes(runs, shift, repetitions):.1%}" for runs in (1, 3, 5, 10, 20))
        print(f"floor, shift sd {shift}: passed by {shares}", flush=True)
    for world in ("same", "redrawn", "hard"):
        for design in DESIGNS:
            rng = np.random.default_rng(7)
            for mixture in MIXTURES:
                found = interactions(rng, world, mixture, design, repetitions)
                text = ", ".join(f"{name} {share:.1%}" for name, share in found.items())
                print(f"{world}, {design[0]}x{design[1]}, {mixture.name}: {text}", flush=True)


if __name__ == "__main__":
    main()
