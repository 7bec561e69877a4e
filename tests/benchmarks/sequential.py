"""What stopping early saves and costs, by simulation. Prints figures and says which bars they meet.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.sequential [--repetitions 1000] [--cases 50] [--rounds 5]

The sampling model is that of `tests.benchmarks.verdicts`: every repetition draws new cases; base and head meet them in
one night, in rounds of one trial a case and arm. Where a night effect is asked for, each case's chance is shifted on
the logit scale by the same draw for both arms, as interleaved arms meet it.

The looks are those of the product (`bench.stats.sequential`). Beside them stands the fixed design: all rounds run, and
then the sign-flip test of `compare` with the same margin. Of each share the 95% Wilson interval is printed; a bar is
missed only where the interval excludes it:

- false alarms: *regression* where the mean did not change, at most 5%;
- saved where nothing changed: at least 60% of the trials;
- power lost against the fixed design, with a drop of ten points: at most 5 points (the same repetitions for both).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bench.stats.intervals import Floats, wilson
from bench.stats.sequential import decisions, make_sequential, statistics
from bench.stats.sign_flips import sign_flip
from bench.stats.tests import Rules
from tests.benchmarks.difficulty import CHANGES, FAILING, MIXTURES, UNCHANGED, Mixture

MOST_FALSE, LEAST_SAVED, MOST_LOST = 0.05, 0.60, 0.05
RULES = Rules()
"""Of the fixed design."""
NIGHT = 0.6
"""Standard deviation on the logit scale."""


@dataclass(frozen=True)
class Found:
    """One setting, over its repetitions."""

    mixture: str
    change: str
    night: float
    regression: Floats
    improvement: Floats
    excluded: Floats
    rounds: Floats
    fixed: Floats
    most: int

    @property
    def saved(self) -> Floats:
        return 1 - self.rounds / self.most

    def line(self) -> str:
        return (
            f"{self.mixture:14} {self.change:17} night {self.night:3.1f}   regression {_share(self.regression)}"
            f"   fixed {_share(self.fixed)}   improvement {self.improvement.mean():6.1%}   no drop"
            f" {self.excluded.mean():6.1%}   rounds {self.rounds.mean():.2f}, saved {_mean(self.saved)}"
        )

    def faults(self) -> list[str]:
        """The bars that this setting misses, beyond what chance explains."""
        name = f"{self.mixture}, {self.change}, night {self.night}"
        if self.change in UNCHANGED:
            false, n = float(self.regression.mean()), len(self.regression)
            saved, error = float(self.saved.mean()), _error(self.saved)
            missed = [f"{name}: {false:.1%} false alarms"] if wilson(false, n).low > MOST_FALSE else []
            few = self.change == "none" and saved + 1.96 * error < LEAST_SAVED
            return missed + ([f"{name}: saves {saved:.1%}"] if few else [])
        lost = self.fixed - self.regression
        if lost.mean() - 1.96 * _error(lost) > MOST_LOST:
            return [f"{name}: loses {lost.mean():.1%} of power"]
        return []


def _error(values: Floats) -> float:
    return float(values.std(ddof=1) / len(values) ** 0.5)


def _mean(values: Floats) -> str:
    return f"{values.mean():.1%} ± {1.96 * _error(values):.1%}"


def _share(hits: Floats) -> str:
    interval = wilson(float(hits.mean()), len(hits))
    return f"{hits.mean():6.1%} [{interval.low:.1%}, {interval.high:.1%}]"


def simulate(
    mixture: Mixture, change: str, night: float, cases: int, rounds: int, repetitions: int, seed: int
) -> Found:
    """All repetitions of one setting at once."""
    rng = np.random.default_rng([20261122, seed])
    drawn = [mixture.draw(rng, cases) for _ in range(repetitions)]
    chances = [np.array(drawn), np.array([CHANGES[change](p, mixture, rng) for p in drawn])]
    if night:
        shift = rng.normal(0, night, (repetitions, 1))
        chances = [_shifted(p, shift) for p in chances]
    base, head = ((rng.random((rounds, *p.shape)) < p).astype(np.float64) for p in chances)
    numbers = np.arange(1, rounds + 1)[:, None, None]
    differences = (np.cumsum(head, axis=0) - np.cumsum(base, axis=0)) / numbers
    design = make_sequential(cases, rounds)
    by_signs = np.array([sign_flip(it).lower for it in differences[-1]])
    going = np.ones(repetitions, dtype=bool)
    made = np.zeros(repetitions)
    became = {name: np.zeros(repetitions, dtype=bool) for name in ("regression", "improvement", "no drop")}
    for number in range(1, rounds + 1):
        made += going
        seen = statistics(differences[number - 1], design.drop)
        if number == rounds:
            seen = replace(seen, p_worse=by_signs, p_better=1 - by_signs)
        for name, hits in decisions(seen, design, number).items():
            became[name] |= hits & going
            going &= ~hits
    fixed = (differences[-1].mean(axis=1) <= 1e-9 - RULES.margin) & (by_signs < RULES.alpha)
    regression, improvement, excluded = (became[name].astype(np.float64) for name in became)
    return Found(mixture.name, change, night, regression, improvement, excluded, made, fixed.astype(np.float64), rounds)


def _shifted(p: Floats, shift: Floats) -> Floats:
    """On the logit scale; a case that always or never succeeds stays so."""
    sure = (p <= 0) | (p >= 1)
    odds = np.where(sure, 1.0, p / np.where(sure, 1.0, 1 - p)) * np.exp(shift)
    return np.where(sure, p, odds / (1 + odds))


def settings() -> Iterator[tuple[Mixture, str, float]]:
    for mixture in (*MIXTURES, FAILING):
        for night in (0.0, NIGHT):
            yield mixture, "none", night
    for mixture in MIXTURES:
        for change in (name for name in CHANGES if name != "none"):
            yield mixture, change, 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    began = time.monotonic()
    print(f"{asked.cases} cases, at most {asked.rounds} rounds, {asked.repetitions} repetitions a setting", flush=True)
    missed: list[str] = []
    for seed, (mixture, change, night) in enumerate(settings()):
        found = simulate(mixture, change, night, asked.cases, asked.rounds, asked.repetitions, seed)
        print(found.line(), flush=True)
        missed += found.faults()
    print(f"\n{time.monotonic() - began:.0f} s")
    print("Bars not met:" if missed else "All bars met.", *missed, sep="\n  ")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
