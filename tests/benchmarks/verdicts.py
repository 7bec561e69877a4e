"""How often the statistics are right, by simulation. Prints figures and says which bars they meet.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.verdicts [--repetitions 2000] [--processes 2] [--study nights]
    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.verdicts --sample

The sampling model, for every repetition anew: the cases are a fresh sample (new cases), each with a chance of success p
of its own, drawn from a mixture in which many cases are never solved (p = 0), many always (p = 1), and the others
between. Base and head meet the same cases. Without a change they share each case's p; with one, head's p is lower:

- *everywhere*: every p falls by the same share, so that the mean over all possible cases falls by ten points;
- *broken*: of the drawn cases, in random order, so many fall to p = 0 that their mean p falls by exactly ten points;
- *broken at random*: each case falls to p = 0 with the same chance, ten points on average: the drop of the drawn cases
  itself varies, and is often well below ten.

- *masked by gains*: broken cases take 15 points, gains on the others give five back;
- *redrawn*: a fifth of the cases get another difficulty, so that much changes and nothing on average: no change;
- *balanced*: a fifth of the cases breaks and all others gain as much on average: no change, and skewed differences.

Trials are independent given p. In the study `nights` they are not: each night adds a normal effect of the stated
standard deviation to the logit of every chance. Base has an arm in head's night or has not, and nights before.

Two ideal tests stand beside ours. Of *cases like these*: one that is told the true standard error of the mean
difference over cases; it must allow for changes that differ from case to case and cancel on average. Of *this suite*:
one that is told each case's chance of success and the true spread between nights.
 A *regression* is what `bench.stats.verdict.judge` says, with its defaults (margin 5
points, alpha 5%). Beside it the naive rule, "the mean fell by 5 points or more", and the verdict if the within-case
test took the place of the sign flips.

Coverage counts against the mean of all possible cases, not of the drawn ones; for *broken* that is not defined.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from bench.stats.intervals import Floats, Interval, clustered, wilson
from bench.stats.nights import night_weights
from bench.stats.pairing import Sample, make_sample
from bench.stats.ranking import rank_bands
from bench.stats.ratio_test import paired_ratios
from bench.stats.tests import Rules, paired_cases
from bench.stats.verdict import Judgement, judge, judge_suite
from tests.benchmarks.difficulty import (
    CEILING,
    CHANGES,
    DESIGNS,
    DROP,
    FAILING,
    MIXTURES,
    UNCHANGED,
    Mixture,
    at_night,
)

NAIVE = 0.05
RULES = Rules()
CHANCE = 0.05
ENOUGH = 0.75
MANY_DRAWS = 400
FIXED_DROPS = ("broken", "masked by gains")
"""Their mean over all possible cases is not defined: it is fixed for the cases that were drawn."""


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
    suite_covered: int = 0
    average_covered: int = 0
    """The difference of an average night, in place of that of the night in which both arms ran."""
    suite_average_covered: int = 0
    ideal: int = 0
    """Of this suite."""
    differences: list[float] = field(default_factory=list)
    variances: list[float] = field(default_factory=list)
    """Of the differences of cases."""

    def ideal_of_cases(self, cases: int) -> float:
        """How often a test would call a regression that knows the standard error of the mean over `cases`."""
        if not self.differences:
            return 0.0
        error = (sum(self.variances) / len(self.variances) / cases) ** 0.5
        return float(np.mean(np.array(self.differences) <= 1e-9 - max(RULES.margin, 1.6449 * error)))

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
    sd: float = 0.0
    """Of the effect of a night on the logit."""
    history: int = 0
    """Nights of base before that of head."""
    arm: bool = True
    """Did base run in the night of head, too?"""
    against: int = 0
    """Trials of base, where they are not those of head."""

    def generator(self) -> np.random.Generator:
        return np.random.default_rng([20261121, self.seed])


def holds(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low - 1e-12 <= truth <= interval.high + 1e-12


def compare_often(task: Task) -> Tally:
    """Comparisons of success in one setting."""
    rng, change, tally = task.generator(), CHANGES[task.change], Tally()
    truth = difference_of_night(task)
    for _ in range(task.repetitions):
        p = task.mixture.draw(rng, task.cases)
        q = change(p, task.mixture, rng)
        it, ideal, effect = _meet(rng, task, p, q)
        found = judge(
            it.differences,
            RULES.margin,
            RULES.alpha,
            lower_is_worse=True,
            noise=it.noise,
            trials=float(task.trials),
            tails=paired_cases(it.differences, it.base, it.head, it.night),
            night=it.night,
        )
        suite = judge_suite(it.strata, it.shared_cases, RULES.margin, RULES.alpha, it.strata_night)
        _count(tally, found, suite, ideal)
        tally.differences.append(found.difference)
        tally.variances.append(float(it.differences.var(ddof=1)))
        tally.covered += holds(found.interval, truth(effect))
        tally.suite_covered += holds(suite.interval, float((at_night(q, effect) - at_night(p, effect)).mean()))
        tally.average_covered += holds(found.interval, truth(0.0))
        tally.suite_average_covered += holds(suite.interval, float((q - p).mean()))
    return tally


def difference_of_night(task: Task) -> Callable[[float], float]:
    """The mean difference over all possible cases as a function of the night's effect (logit).

    Both arms ran in one night, and a night and a change do not add on the scale of success: what the
    experiment estimates is the difference under the conditions of its night.
    """
    if task.change in UNCHANGED:
        return lambda effect: 0.0
    if not task.sd or task.change in FIXED_DROPS:
        return lambda effect: -DROP
    rng = np.random.default_rng([20261124, task.seed])
    parts = [task.mixture.draw(rng, task.cases) for _ in range(MANY_DRAWS)]
    changed = [CHANGES[task.change](p, task.mixture, rng) for p in parts]
    p, q = np.concatenate(parts), np.concatenate(changed)
    effects = np.linspace(-5 * task.sd, 5 * task.sd, 101)
    means = np.array([float((at_night(q, effect) - at_night(p, effect)).mean()) for effect in effects])
    # The drop of an average night is known: it takes the error of this sample away.
    means -= means[50] + DROP
    return lambda effect: float(np.interp(effect, effects, means))


def _count(tally: Tally, found: Judgement, suite: Judgement, ideal: bool) -> None:
    tally.repetitions += 1
    tally.regression += found.verdict == "regression"
    tally.improvement += found.verdict == "improvement"
    tally.no_change += found.verdict == "no change"
    tally.naive += found.difference <= 1e-9 - NAIVE
    tally.these_cases += suite.verdict == "regression"
    tally.ideal += ideal


def _meet(rng: np.random.Generator, task: Task, p: Floats, q: Floats) -> tuple[Sample, bool, float]:
    """One experiment; would a test that is told all but the change itself call a regression; its night's effect."""
    effects = rng.normal(0, task.sd, task.history + 1) if task.sd else np.zeros(task.history + 1)
    nights = [*range(task.history), *([task.history] if task.arm else [])]
    of_night = task.against or task.trials
    base = np.concatenate([_succeed(rng, at_night(p, effects[night]), of_night) for night in nights], axis=1)
    head = _succeed(rng, at_night(q, effects[-1]), task.trials)
    it = make_sample(
        [str(n) for n in range(task.cases)],
        list(base),
        list(head),
        ratio=False,
        base_nights=[np.repeat(nights, of_night)] * task.cases,
        head_nights=[np.full(task.trials, task.history)] * task.cases,
        nights=task.history + 1,
    )
    noise, spread = float((p * (1 - p)).mean()) / task.cases, task.sd * float((p * (1 - p)).mean())
    of_base = np.where(np.isin(np.arange(task.history + 1), nights), float(of_night), 0.0)
    of_head = np.where(np.arange(task.history + 1) == task.history, float(task.trials), 0.0)
    one, other = night_weights(of_base, of_head, noise, spread)
    by_night = np.zeros(task.history + 1)
    by_night[nights] = base.reshape(task.cases, len(nights), of_night).mean(axis=(0, 2))
    trials = noise * float((one**2 / of_night + other**2 / task.trials).sum())
    error = trials + spread**2 * float(((other - one) ** 2).sum())
    difference = float(head.mean() - one @ by_night)
    return it, difference <= 1e-9 - max(RULES.margin, 1.6449 * error**0.5), float(effects[-1])


def cost_often(task: Task) -> Tally:
    """Comparisons of cost: log-normal between cases and between trials; dearer by a quarter, or not."""
    rng, tally = task.generator(), Tally()
    truth = 0.0 if task.change == "none" else float(np.log(1.25))
    names = [str(n) for n in range(task.cases)]
    for _ in range(task.repetitions):
        size = np.exp(rng.normal(0, 1, task.cases))[:, None]
        factor = np.exp(rng.normal(truth, 0.0 if task.change == "none" else 0.3, task.cases))[:, None]
        base, head = (
            list(size * scale * np.exp(rng.normal(0, 0.5, (task.cases, trials))))
            for scale, trials in ((1.0, task.against or task.trials), (factor, task.trials))
        )
        it = make_sample(names, base, head, ratio=True)
        tails = paired_ratios(it.differences, it.base, it.head, it.night)
        found = judge(
            it.differences, float(np.log1p(RULES.ratio_margin)), RULES.alpha, lower_is_worse=False, tails=tails
        )
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


def _succeed(rng: np.random.Generator, p: Floats, trials: int) -> Floats:
    """(cases, trials)."""
    return (rng.random((len(p), trials)) < p[:, None]).astype(np.float64)


def rare_often(task: Task) -> Tally:
    """Intervals of one agent's mean score where cases score 0.95 to 1, and one in ten scores 0."""
    rng, tally = task.generator(), Tally()
    for _ in range(task.repetitions):
        scores = np.where(rng.random(task.cases) < 0.1, 0.0, rng.uniform(0.95, 1, task.cases))
        tally.repetitions += 1
        tally.covered += holds(clustered(list(map(float, scores))), 0.9 * 0.975)
    return tally


STUDIES: dict[str, Callable[[Task], Tally]] = {
    "compare": compare_often,
    "nights": compare_often,
    "unequal": compare_often,
    "cost": cost_often,
    "unequal cost": cost_often,
    "mean": mean_often,
    "score": score_often,
    "rare": rare_often,
    "ranks": ranks_often,
}
SCENES = ((0, True), (5, True), (10, True), (1, False), (5, False), (10, False))
"""Nights of base before that of head, and whether base ran in head's night."""
EFFECTS = (0.0, 0.3, 0.6)
FEW_NIGHTS = 5
RARE = Mixture("rare successes", 0.0, 0.0, 1.5, 20.0)
UNEQUAL = ((20, 1, 10), (20, 10, 1), (50, 1, 10), (50, 3, 10))
"""Cases, trials of head and of base."""


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
    found = [Task(*setting, repetitions, number) for number, setting in enumerate(settings)]
    found += [Task("rare", MIXTURES[0], "none", n, 1, repetitions, 1000 + n) for n in (5, 10, 20, 50)]
    for number, (cases, trials, against) in enumerate(UNEQUAL, 1100):
        for step, mixture in enumerate((*MIXTURES, RARE, CEILING)):
            own = 10 * number + step
            found.append(Task("unequal", mixture, "none", cases, trials, repetitions, own, against=against))
        found.append(
            Task("unequal cost", MIXTURES[0], "none", cases, trials, repetitions, 10 * number + 9, against=against)
        )
    number = 2000
    for mixture in MIXTURES:
        for sd in EFFECTS:
            for history, arm in SCENES:
                for cases, trials in (DESIGNS[0], DESIGNS[2]):
                    changes = ["none"]
                    if arm and history <= FEW_NIGHTS and sd != EFFECTS[1] and (cases, trials) == DESIGNS[2]:
                        changes += [change for change in CHANGES if change not in UNCHANGED]
                    for change in changes:
                        number += 1
                        found.append(
                            Task("nights", mixture, change, cases, trials, repetitions, number, sd, history, arm)
                        )
    return found


def sample_of(repetitions: int) -> list[Task]:
    """Of each study that `compare` stands on, what errs first: for CI."""
    middling, sure = MIXTURES[0], MIXTURES[3]
    return [
        Task("compare", middling, "everywhere", 50, 5, repetitions, 1),
        Task("rare", middling, "none", 5, 1, 4 * repetitions, 2),
        Task("nights", middling, "none", 50, 5, repetitions, 3, 0.6, 1, False),
        Task("nights", sure, "none", 20, 3, repetitions, 4, 0.6, 5, True),
        Task("nights", sure, "broken", 50, 5, repetitions, 5, 0.0, 5, True),
        Task("unequal", RARE, "none", 20, 1, 4 * repetitions, 6, against=10),
        Task("unequal cost", middling, "none", 50, 1, repetitions, 7, against=10),
    ]


def run(task: Task) -> tuple[Task, Tally]:
    return task, STUDIES[task.study](task)


def line(task: Task, tally: Tally) -> str:
    head = f"{task.mixture.name:14} {task.change:17} {task.cases:3}x{task.trials}"
    head += f" against {task.against}" if task.against else ""
    if task.study == "nights":
        head += f" sd {task.sd:.1f}, {task.history:2} nights before, {'an arm' if task.arm else 'no arm'}"
    covered = f"{tally.share(tally.covered):7.1%}"
    if task.study in ("mean", "score", "rare"):
        beside = f"   Wilson, n = cases {tally.share(tally.naive):7.1%}   Student {tally.share(tally.these_cases):7.1%}"
        beside = beside if task.study == "mean" else ""
        return f"{head}   covered {covered}{beside}"
    if task.study == "ranks":
        return f"{head}   true rank in the band {covered}, mean width {tally.share(tally.naive):.1f} of 6"
    text = f"{head}   naive {tally.share(tally.naive):6.1%}   regression {tally.share(tally.regression):6.1%}"
    if task.study in ("compare", "nights"):
        text += f" (ideal {tally.ideal_of_cases(task.cases):6.1%})   this suite {tally.share(tally.these_cases):6.1%}"
        text += f" (ideal {tally.share(tally.ideal):6.1%}, covered {tally.share(tally.suite_covered):6.1%})"
    text += f"   no change {tally.share(tally.no_change):7.1%}"
    if task.study == "nights" and task.change not in UNCHANGED:
        text += f"   of an average night: this suite {tally.share(tally.suite_average_covered):6.1%}"
        if task.change not in FIXED_DROPS:
            text += f", interval {tally.share(tally.average_covered):6.1%}"
    return text if task.change in FIXED_DROPS else f"{text}   interval covered {covered}"


def faults(task: Task, tally: Tally, settings: int) -> list[str]:
    """Bars that this setting does not meet, beyond what chance makes of one of so many settings (Bonferroni)."""
    from scipy.stats import binom

    def above(count: int, bar: float) -> bool:
        return bool(binom.sf(count - 1, tally.repetitions, bar) < CHANCE / settings)

    def below(count: int, bar: float) -> bool:
        return bool(binom.cdf(count, tally.repetitions, bar) < CHANCE / settings)

    found = []
    name = f"{task.study}, {task.mixture.name}, {task.change}, {task.cases}x{task.trials}"
    name += f" against {task.against}" if task.against else ""
    if task.study == "nights":
        name += f", sd {task.sd}, {task.history} nights before, {'an arm' if task.arm else 'no arm'}"
    if task.change in UNCHANGED and above(tally.regression, 0.05):
        found.append(f"{name}: regression {tally.share(tally.regression):.1%} > 5%")
    verdicts = task.study in ("compare", "nights")
    if verdicts and task.change not in UNCHANGED and (task.cases, task.trials) == DESIGNS[2]:
        ideal = tally.ideal_of_cases(task.cases)
        if ideal >= ENOUGH and below(tally.regression, ENOUGH):
            found.append(f"{name}: found {tally.share(tally.regression):.1%}, an ideal test {ideal:.1%}")
        if tally.share(tally.ideal) >= ENOUGH and below(tally.these_cases, ENOUGH):
            shares = f"{tally.share(tally.these_cases):.1%}, an ideal test {tally.share(tally.ideal):.1%}"
            found.append(f"{name}: found in this suite {shares}")
    if verdicts and task.change == "none" and above(tally.these_cases, 0.05):
        found.append(f"{name}: regression of this suite {tally.share(tally.these_cases):.1%} > 5%")
    if verdicts and below(tally.suite_covered, 0.93):
        found.append(f"{name}: interval of this suite covers {tally.share(tally.suite_covered):.1%} < 93%")
    if task.study != "ranks" and task.change not in FIXED_DROPS and below(tally.covered, 0.93):
        found.append(f"{name}: interval covers {tally.share(tally.covered):.1%} < 93%")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--study", choices=sorted(STUDIES), action="append")
    parser.add_argument("--sample", action="store_true", help="a few settings with 60 repetitions, as CI runs them")
    asked = parser.parse_args(arguments)
    repetitions = asked.repetitions or (60 if asked.sample else 2000)
    began = time.monotonic()
    every = sample_of(repetitions) if asked.sample else tasks(repetitions)
    chosen = [task for task in every if not asked.study or task.study in asked.study]
    missed: list[str] = []
    shown = ""
    for task, tally in _results(chosen, asked.processes):
        if task.study != shown:
            shown = task.study
            print(f"\n{shown}: {repetitions} repetitions a setting (cases x trials)", flush=True)
        print(line(task, tally), flush=True)
        missed += faults(task, tally, len(chosen))
    print(f"\n{time.monotonic() - began:.0f} s; a share of 5% has a Monte Carlo error of", end=" ")
    print(f"{(0.05 * 0.95 / repetitions) ** 0.5:.2%}")
    print("\nBars not met:" if missed else "\nAll bars met.", *missed, sep="\n  ")
    return 1 if missed else 0


def _results(chosen: Sequence[Task], processes: int) -> Iterator[tuple[Task, Tally]]:
    if processes == 1:
        yield from map(run, chosen)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(run, chosen)


if __name__ == "__main__":
    sys.exit(main())
