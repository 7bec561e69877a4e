"""How often `trends` raises a false alarm in a year of nights, and how soon it sees a real drop, by simulation.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.trend_alarms [--years 10]

Each year has an agent with cases of their own difficulty (`difficulty.py`), the same ones every night, and independent
trials. Every night the last 90 are looked at, as the command does; an alarm is a drop that stands where none stood the
night before. For the delay, all chances fall by the same share, ten points on average, after 60 nights.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from bench.stats.intervals import Floats
from bench.stats.trends import find_levels, find_steps, standing_drop
from tests.benchmarks.difficulty import DESIGNS, DROP, MIXTURES, Mixture

WINDOW = 90
FIRST = 10
PATIENCE = 30


def stands(values: Floats) -> bool:
    window = values[-WINDOW:]
    return standing_drop(find_levels(window, find_steps(window))) is not None


def night(chances: Floats, trials: int, rng: np.random.Generator) -> float:
    return float(rng.binomial(trials, chances).mean() / trials)


def false_alarms(mixture: Mixture, cases: int, trials: int, years: int, rng: np.random.Generator) -> int:
    alarms = 0
    for _ in range(years):
        chances = mixture.draw(rng, cases)
        values = np.array([night(chances, trials, rng) for _ in range(365)])
        standing = False
        for end in range(FIRST, len(values) + 1):
            now = stands(values[:end])
            alarms += now and not standing
            standing = now
    return alarms


def delays(mixture: Mixture, cases: int, trials: int, times: int, rng: np.random.Generator) -> list[int]:
    """Nights until the drop is seen; `PATIENCE + 1` where it was not seen by then."""
    found = []
    for _ in range(times):
        chances = mixture.draw(rng, cases)
        fallen = chances * (1 - DROP / mixture.mean)
        values = [night(chances, trials, rng) for _ in range(60)]
        for waited in range(1, PATIENCE + 2):
            values.append(night(fallen, trials, rng))
            if waited > PATIENCE or stands(np.array(values)):
                found.append(waited)
                break
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--years", type=int, default=10)
    asked = parser.parse_args()
    began = time.monotonic()
    for mixture in (MIXTURES[0], MIXTURES[3]):
        for cases, trials in DESIGNS:
            rng = np.random.default_rng([cases, trials])
            alarms = false_alarms(mixture, cases, trials, asked.years, rng)
            seen = delays(mixture, cases, trials, 4 * asked.years, rng)
            print(
                f"{mixture.name:14} {cases}x{trials}: {alarms} false alarms in {asked.years} years; a ten-point drop "
                f"is seen after {np.median(seen):.0f} nights (median), {np.quantile(seen, 0.9):.0f} (nine of ten), "
                f"not within {PATIENCE}: {sum(it > PATIENCE for it in seen)} of {len(seen)}",
                flush=True,
            )
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
