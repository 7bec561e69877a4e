"""How often `trends` raises a false alarm in a year of nights, and how soon it sees a real drop, by simulation.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.trend_alarms [--years 60] [--sample] [--control]

Each year has an agent with cases of their own difficulty (`difficulty.py`), the same ones every night, and independent
trials. A night has an effect on the logit of every case's chance, with the given standard deviation and correlation
from one night to the next. An alarm is a drop that stands where none stood the night before, whatever was seen by then;
every year is a new series, looked at from its first night to its 365th, and steps up that are false count in it as far
as they lead to alarms. For the delay, a drop of ten points on average begins after a history of 10 or 60 nights.

With --control it measures instead what the control says of drops after 30 nights, seen for 5, that it shares or does
not share; agent and control have cases of their own and the nights' effects in common.

Intervals are 95%: Poisson's exact one of alarms a year (Garwood 1936), Wilson's of the share of drops seen.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from scipy.stats import chi2

from bench.stats.entrants import Entrant
from bench.stats.intervals import Floats, Interval, wilson
from bench.stats.step_causes import attribute
from bench.stats.steps import watch
from bench.stats.trends import Night, Series, find_levels, standing_drop
from tests.benchmarks.difficulty import CEILING, CHANGES, MIXTURES, Mixture

DESIGNS = ((20, 1), (50, 1), (20, 3), (50, 3), (50, 5))
NIGHTS = ((0.0, 0.0), (0.3, 0.0), (0.6, 0.0), (0.3, 0.5), (0.6, 0.5))
"""The standard deviation of a night's effect on the logit, and its correlation with the next night's."""
SAMPLE = (((50, 1),), ((0.0, 0.0), (0.6, 0.5)))
A_YEAR = 365
PATIENCE = 5
"""Nights within which a drop should be seen."""
SEEN_OF_TEN = 0.9
REPETITIONS = 5
"""Drops for each simulated year of nights."""


@dataclass(frozen=True)
class Setting:
    mixture: Mixture
    cases: int
    trials: int
    sd: float
    rho: float

    @property
    def name(self) -> str:
        nights = f"nights sd {self.sd:g}, rho {self.rho:g}" if self.sd else "equal nights"
        return f"{self.mixture.name}, {self.cases}x{self.trials}, {nights}"

    def table(
        self, nights: int, rng: np.random.Generator, change: str = "none", at: int = 0, effects: Floats | None = None
    ) -> Floats:
        """(nights, cases): the mean of each case's trials; from night `at` on, after `change`."""
        chances = self.mixture.draw(rng, self.cases)
        levels = np.tile(chances, (nights, 1))
        levels[at:] = CHANGES[change](chances, self.mixture, rng)
        odds = np.divide(levels, 1 - levels, out=np.full_like(levels, np.inf), where=levels < 1)
        odds = odds * np.exp(self.effects(nights, rng) if effects is None else effects)[:, None]
        moved = np.divide(odds, 1 + odds, out=np.ones_like(odds), where=np.isfinite(odds))
        found: Floats = rng.binomial(self.trials, moved) / self.trials
        return found

    def effects(self, nights: int, rng: np.random.Generator) -> Floats:
        own = rng.normal(0, self.sd, nights)
        found = np.zeros(nights)
        for night in range(nights):
            before = self.rho * found[night - 1] if night else 0.0
            found[night] = before + own[night] * (np.sqrt(1 - self.rho**2) if night else 1.0)
        return found


def standing(table: Floats, trials: int) -> Iterator[bool]:
    """After each night: does a drop stand?"""
    values = table.mean(axis=1)
    cells = np.full(len(values), float(trials * table.shape[1]))
    for night, steps in enumerate(watch(table, values, cells), 1):
        yield bool(steps) and standing_drop(find_levels(values[:night], steps)) is not None


def false_alarms(setting: Setting, years: int, rng: np.random.Generator) -> int:
    alarms = 0
    for _ in range(years):
        stands = np.array([False, *standing(setting.table(A_YEAR, rng), setting.trials)])
        alarms += int((stands[1:] & ~stands[:-1]).sum())
    return alarms


def delays(setting: Setting, change: str, history: int, times: int, rng: np.random.Generator) -> list[int]:
    """Nights until the drop is seen; `PATIENCE + 1` where it was not seen by then, 0 where an alarm was before it."""
    found = []
    for _ in range(times):
        stands = list(standing(setting.table(history + PATIENCE, rng, change, history), setting.trials))
        if stands[history - 1]:
            found.append(0)
        else:
            found.append(next((n for n, now in enumerate(stands[history:], 1) if now), PATIENCE + 1))
    return found


def rate(alarms: int, years: int) -> Interval:
    """Of alarms a year (Garwood, Biometrika 28, 1936)."""
    low = chi2.ppf(0.025, 2 * alarms) / 2 if alarms else 0.0
    return Interval(float(low) / years, float(chi2.ppf(0.975, 2 * alarms + 2)) / 2 / years)


def seen_within(found: list[int]) -> tuple[int, int]:
    """How many were seen within `PATIENCE` nights, of those that began without an alarm."""
    valid = [it for it in found if it]
    return sum(it <= PATIENCE for it in valid), len(valid)


def series_of(table: Floats, trials: int) -> Series:
    start = datetime(2026, 11, 20, tzinfo=UTC)
    cases = table.shape[1]
    nights = [
        Night(f"night-{number}", (start + timedelta(days=number)).isoformat(), float(row.mean()), cases, cases * trials)
        for number, row in enumerate(table)
    ]
    cells = np.full(table.shape, float(trials))
    names = [f"case_{number}" for number in range(cases)]
    return Series(Entrant("mini", "agent", ""), "mini", "1", nights, [], names, ["all"] * cases, True, table, cells)


def attributions(setting: Setting, shared: bool, times: int, rng: np.random.Generator) -> Counter[str]:
    """What the control says, by how often."""
    said: Counter[str] = Counter()
    for _ in range(times):
        effects = setting.effects(30 + PATIENCE, rng)
        arms = [
            series_of(setting.table(30 + PATIENCE, rng, change, 30, effects), setting.trials)
            for change in ("everywhere", "everywhere" if shared else "none")
        ]
        said[attribute(arms[0], 30, 0, arms[1], "control").attribution] += 1
    return said


def report_control(times: int = 200) -> None:
    for mixture in (MIXTURES[0], MIXTURES[3]):
        for trials in (1, 5):
            for sd in (0.0, 0.3):
                setting = Setting(mixture, 50, trials, sd, 0.0)
                for shared in (True, False):
                    said = attributions(setting, shared, times, np.random.default_rng(3))
                    kind = "shared" if shared else "not shared"
                    print(f"{setting.name}, {kind}: {dict(sorted(said.items()))}", flush=True)


def report(setting: Setting, years: int) -> bool:
    """Print the setting's figures; are its bars kept?"""
    rng = np.random.default_rng([setting.cases, setting.trials, round(10 * setting.sd), round(10 * setting.rho)])
    alarms = false_alarms(setting, years, rng)
    bounds = rate(alarms, years)
    kept = alarms <= years
    print(f"{setting.name}: {alarms / years:.2f} [{bounds.low:.2f}, {bounds.high:.2f}] false alarms a year, n={years}")
    for change in ("everywhere", "broken"):
        for history in (10, 60):
            found = delays(setting, change, history, REPETITIONS * years, rng)
            seen, of = seen_within(found)
            if of:
                interval = wilson(seen / of, of)
                print(
                    f"    ten points {change} after {history} nights: {seen / of:.3f} [{interval.low:.3f}, "
                    f"{interval.high:.3f}] seen within {PATIENCE}, median {np.median([it for it in found if it]):.0f},"
                    f" n={of}",
                    flush=True,
                )
                must = history == 10 and setting.sd == 0 and setting.cases >= 50
                kept = kept and (not must or seen / of >= SEEN_OF_TEN)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--years", type=int, default=60)
    parser.add_argument("--sample", action="store_true", help="Two mixtures at one design, for CI.")
    parser.add_argument("--control", action="store_true", help="What the control says of drops.")
    asked = parser.parse_args()
    began = time.monotonic()
    if asked.control:
        return report_control()
    designs, kinds = SAMPLE if asked.sample else (DESIGNS, NIGHTS)
    mixtures = (MIXTURES[0], MIXTURES[3]) if asked.sample else (*MIXTURES, CEILING)
    missed = []
    for mixture in mixtures:
        for cases, trials in designs:
            for sd, rho in kinds:
                setting = Setting(mixture, cases, trials, sd, rho)
                if not report(setting, asked.years):
                    missed.append(setting.name)
    print(f"{time.monotonic() - began:.0f} s; not within the bars: {'; '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
