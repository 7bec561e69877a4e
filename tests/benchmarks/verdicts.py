"""How often the statistics are right, by simulation. Prints figures and says which bars they meet.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.verdicts [--repetitions 2000] [--processes 2]

The sampling model, for every repetition anew: the cases are a fresh sample (new cases), each with a chance of success p
of its own, drawn from a mixture in which many cases are never solved (p = 0), many always (p = 1), and the others
between. Base and head meet the same cases. Without a change they share each case's p; with one, head's p is lower:

- *everywhere*: every p falls by the same share, so that the mean over all possible cases falls by ten points;
- *broken*: of the drawn cases, in random order, so many fall to p = 0 that their mean p falls by exactly ten points;
- *broken at random*: each case falls to p = 0 with the same chance, ten points on average: the drop of the drawn cases
  itself varies, and is often well below ten.

Trials are independent given p. A *regression* is what `bench.stats.tests.judge` says, with its defaults (margin 5
points, alpha 5%). Beside it the naive rule, "the mean fell by 5 points or more", and the verdict if the within-case
test took the place of the sign flips.

Coverage counts against the mean of all possible cases, not of the drawn ones; for *broken* that is not defined.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

from bench.stats.intervals import Floats, Interval, clustered, wilson
from bench.stats.pairing import make_sample
from bench.stats.ranking import rank_bands
from bench.stats.tests import Rules, judge, within_cases
from tests.benchmarks.difficulty import CHANGES, DESIGNS, DROP, FAILING, MIXTURES, Mixture

NAIVE = 0.05
RULES = Rules()


@dataclass
class Tally:
    """Counts over the repetitions of one setting."""

    repetitions: int = 0
    regression: int = 0
    improvement: int = 0
    no_change: int = 0
    naive: int = 0
    these_cases: int = 0
    covered: int = 0

    def share(self, count: int) -> float:
        return count / self.repetitions


@dataclass(frozen=True)
class Task:
    """One setting of one study."""

    study: str
    mixture: Mixture
    change: str
    cases: int
    trials: int
    repetitions: int
    seed: int

    def generator(self) -> np.random.Generator:
        return np.random.default_rng([20261121, self.seed])


def holds(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low - 1e-12 <= truth <= interval.high + 1e-12


def compare_often(task: Task) -> Tally:
    """Comparisons of success in one setting."""
    rng, change, tally = task.generator(), CHANGES[task.change], Tally()
    truth = 0.0 if task.change == "none" else -DROP
    names = [str(n) for n in range(task.cases)]
    for _ in range(task.repetitions):
        p = task.mixture.draw(rng, task.cases)
        base, head = _succeed(rng, p, task.trials), _succeed(rng, change(p, task.mixture, rng), task.trials)
        it = make_sample(names, base, head, ratio=False)
        found = judge(
            it.differences, RULES.margin, RULES.alpha, lower_is_worse=True, noise=it.noise, trials=float(task.trials)
        )
        tally.repetitions += 1
        tally.regression += found.verdict == "regression"
        tally.improvement += found.verdict == "improvement"
        tally.no_change += found.verdict == "no change"
        tally.naive += found.difference <= 1e-9 - NAIVE
        fell = found.difference <= 1e-9 - RULES.margin
        tally.these_cases += fell and within_cases(base, head).lower < RULES.alpha
        tally.covered += holds(found.interval, truth)
    return tally


def cost_often(task: Task) -> Tally:
    """Comparisons of cost: log-normal between cases and between trials; dearer by a quarter, or not."""
    rng, tally = task.generator(), Tally()
    truth = 0.0 if task.change == "none" else float(np.log(1.25))
    names = [str(n) for n in range(task.cases)]
    for _ in range(task.repetitions):
        size = np.exp(rng.normal(0, 1, task.cases))[:, None]
        factor = np.exp(rng.normal(truth, 0.0 if task.change == "none" else 0.3, task.cases))[:, None]
        base, head = (
            list(size * scale * np.exp(rng.normal(0, 0.5, (task.cases, task.trials)))) for scale in (1.0, factor)
        )
        it = make_sample(names, base, head, ratio=True)
        found = judge(it.differences, float(np.log1p(RULES.ratio_margin)), RULES.alpha, lower_is_worse=False)
        tally.repetitions += 1
        tally.regression += found.verdict == "regression"
        tally.naive += found.difference >= np.log1p(RULES.ratio_margin)
        tally.no_change += found.verdict == "no change"
        tally.covered += holds(found.interval, truth)
    return tally


def mean_often(task: Task) -> Tally:
    """Intervals of one agent's mean success: `covered`; Wilson's with n = cases: `naive`; Student's: `these_cases`."""
    from scipy.special import stdtrit

    rng, tally = task.generator(), Tally()
    for _ in range(task.repetitions):
        p = task.mixture.draw(rng, task.cases)
        rates = rng.binomial(task.trials, p) / task.trials
        tally.repetitions += 1
        tally.covered += holds(clustered(list(map(float, rates))), task.mixture.mean)
        tally.naive += holds(wilson(float(rates.mean()), task.cases), task.mixture.mean)
        half = stdtrit(task.cases - 1, 0.975) * rates.std(ddof=1) / task.cases**0.5
        tally.these_cases += abs(rates.mean() - task.mixture.mean) <= half
    return tally


def score_often(task: Task) -> Tally:
    """Intervals of one agent's mean score: a success is 1, a failure a partial credit that depends on the case."""
    rng, tally = task.generator(), Tally()
    credit = 0.4
    truth = task.mixture.mean + (1 - task.mixture.mean) * credit
    for _ in range(task.repetitions):
        p = task.mixture.draw(rng, task.cases)[:, None]
        partial = rng.beta(4 * credit, 4 * (1 - credit), size=p.shape)
        shown = np.clip(
            partial + rng.uniform(-1, 1, (task.cases, task.trials)) * np.minimum(partial, 1 - partial), 0, 1
        )
        scores = np.where(rng.random((task.cases, task.trials)) < p, 1.0, shown).mean(axis=1)
        tally.repetitions += 1
        tally.covered += holds(clustered(list(map(float, scores))), truth)
    return tally


def ranks_often(task: Task) -> Tally:
    """Rank bands of six agents, a few points apart, on the same cases: `covered` counts agents with the true rank."""
    rng, tally = task.generator(), Tally()
    skills = np.array([1.0, 0.97, 0.9, 0.8, 0.6, 0.3])
    for _ in range(task.repetitions // 4):
        p = task.mixture.draw(rng, task.cases) * skills[:, None]
        bands = rank_bands(rng.binomial(task.trials, p) / task.trials)
        tally.repetitions += len(skills)
        tally.covered += sum(best <= rank <= worst for rank, (best, worst) in enumerate(bands, start=1))
        tally.naive += sum(worst - best + 1 for best, worst in bands)
    return tally


def _succeed(rng: np.random.Generator, p: Floats, trials: int) -> list[Floats]:
    return list((rng.random((len(p), trials)) < p[:, None]).astype(np.float64))


STUDIES: dict[str, Callable[[Task], Tally]] = {
    "compare": compare_often,
    "cost": cost_often,
    "mean": mean_often,
    "score": score_often,
    "ranks": ranks_often,
}


def tasks(repetitions: int) -> list[Task]:
    settings = [
        (study, mixture, change, cases, trials)
        for study, changes in (
            ("compare", list(CHANGES)),
            ("cost", ["none", "dearer"]),
            ("mean", ["none"]),
            ("score", ["none"]),
            ("ranks", ["none"]),
        )
        for mixture in {"cost": MIXTURES[:1], "mean": (*MIXTURES, FAILING)}.get(study, MIXTURES)
        for change in changes
        for cases, trials in DESIGNS
    ]
    return [Task(*setting, repetitions, number) for number, setting in enumerate(settings)]


def run(task: Task) -> tuple[Task, Tally]:
    return task, STUDIES[task.study](task)


def line(task: Task, tally: Tally) -> str:
    head = f"{task.mixture.name:14} {task.change:17} {task.cases:3}x{task.trials}"
    covered = f"{tally.share(tally.covered):7.1%}"
    if task.study in ("mean", "score"):
        beside = f"   Wilson, n = cases {tally.share(tally.naive):7.1%}   Student {tally.share(tally.these_cases):7.1%}"
        beside = beside if task.study == "mean" else ""
        return f"{head}   covered {covered}{beside}"
    if task.study == "ranks":
        return f"{head}   true rank in the band {covered}, mean width {tally.share(tally.naive):.1f} of 6"
    text = f"{head}   regression {tally.share(tally.regression):7.1%}   naive {tally.share(tally.naive):7.1%}"
    if task.study == "compare":
        text += f"   within-case {tally.share(tally.these_cases):7.1%}"
    text += f"   no change {tally.share(tally.no_change):7.1%}"
    return text if task.change == "broken" else f"{text}   interval covered {covered}"


def faults(task: Task, tally: Tally) -> list[str]:
    """Bars of issue 5 that this setting does not meet."""
    found = []
    name = f"{task.study}, {task.mixture.name}, {task.change}, {task.cases}x{task.trials}"
    if task.change == "none" and tally.share(tally.regression) > 0.05:
        found.append(f"{name}: regression {tally.share(tally.regression):.1%} > 5%")
    power = task.study == "compare" and task.change != "none" and (task.cases, task.trials) == (50, 5)
    if power and tally.share(tally.regression) < 0.75:
        found.append(f"{name}: found {tally.share(tally.regression):.1%} < 75%")
    if task.study != "ranks" and task.change != "broken" and not 0.93 <= tally.share(tally.covered) <= 0.97:
        found.append(f"{name}: interval covers {tally.share(tally.covered):.1%}, not 93 to 97%")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--study", choices=sorted(STUDIES), action="append")
    asked = parser.parse_args()
    began = time.monotonic()
    chosen = [task for task in tasks(asked.repetitions) if not asked.study or task.study in asked.study]
    missed: list[str] = []
    shown = ""
    with ProcessPoolExecutor(asked.processes) as pool:
        for task, tally in pool.map(run, chosen):
            if task.study != shown:
                shown = task.study
                print(f"\n{shown}: {asked.repetitions} repetitions a setting (cases x trials)", flush=True)
            print(line(task, tally), flush=True)
            missed += faults(task, tally)
    print(f"\n{time.monotonic() - began:.0f} s; a share of 5% has a Monte Carlo error of", end=" ")
    print(f"{(0.05 * 0.95 / asked.repetitions) ** 0.5:.2%}")
    print("\nBars not met:" if missed else "\nAll bars met.", *missed, sep="\n  ")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
