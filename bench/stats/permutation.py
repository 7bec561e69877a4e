"""Tests of "nothing has changed" that assume nothing about how results are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np

from bench.stats.draws import DRAWS, SEED, Floats, signs

MOST_EXACT = 15
"""Pairs up to which every one of the 2^n signs is tried."""
_MOST_LATTICE = 10_000
_CHUNK = 2_000_000


@dataclass(frozen=True)
class Tails:
    """One-sided p-values of a mean difference."""

    lower: float
    """Chance of a mean as low as this, or lower, if nothing has changed."""
    upper: float
    draws: int | None
    """None: exact. Otherwise the Monte Carlo draws behind it; +1 is added to both counts (Phipson and Smyth, 2010)."""


def sign_flip(differences: Floats) -> Tails:
    """The test of paired differences, one a case, by flipping their signs (Fisher, The Design of Experiments, 1935).

    `differences`: shape (cases,). Without a change base and head could be exchanged in every case, so that each
    difference is as likely with the other sign; with equally many trials on both sides that is exact. Differences of 0
    have no part in it. Exact up to 15 others, above by `DRAWS` draws with `SEED`.
    """
    moved = differences[differences != 0]
    n = len(moved)
    if n == 0:
        return Tails(1.0, 1.0, None)
    observed = float(moved.sum())
    slack = 1e-9 * float(np.abs(moved).sum())
    exact = n <= MOST_EXACT
    sums = _sums_of_all_signs(moved) if exact else signs(n) @ moved
    lower, upper = int((sums <= observed + slack).sum()), int((sums >= observed - slack).sum())
    if exact:
        return Tails(lower / len(sums), upper / len(sums), None)
    return Tails((1 + lower) / (1 + len(sums)), (1 + upper) / (1 + len(sums)), len(sums))


def within_cases(base: Sequence[Floats], head: Sequence[Floats]) -> Tails:
    """The test of the mean difference over these very cases: trials change sides within their case.

    `base`, `head`: the trials of each case. Stratified permutation (Good, Permutation, Parametric and Bootstrap Tests,
    2005, chapter 6). A case where every trial went one way counts for more than one sign, so this sees what breaks few
    cases for good; it says nothing of other cases than these. Exact for successes (0 and 1), by convolution of
    hypergeometric distributions; otherwise by `DRAWS` draws.
    """
    observed = sum(float(h.mean() - b.mean()) for b, h in zip(base, head, strict=True))
    binary = all(bool(np.isin(values, (0.0, 1.0)).all()) for side in (base, head) for values in side)
    steps = lcm(*(len(values) for side in (base, head) for values in side))
    if binary and steps * len(base) <= _MOST_LATTICE:
        return _exact_within(base, head, steps, observed)
    rng = np.random.default_rng(SEED)
    sums = np.zeros(DRAWS)
    for b, h in zip(base, head, strict=True):
        both = np.concatenate([b, h])
        if np.ptp(both) > 0:
            sums += _shuffled_differences(both, len(b), rng)
    slack = 1e-9 * (1 + abs(observed))
    lower, upper = int((sums <= observed + slack).sum()), int((sums >= observed - slack).sum())
    return Tails((1 + lower) / (1 + DRAWS), (1 + upper) / (1 + DRAWS), DRAWS)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, adjusted so that together they err as seldom as one (Holm, Scand. J. Statistics 6, 1979)."""
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for position, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = least
    return adjusted


def _sums_of_all_signs(values: Floats) -> Floats:
    """(2^n,): the sum of `values`, shape (n,), under every choice of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums - value, sums + value])
    return sums


def _exact_within(base: Sequence[Floats], head: Sequence[Floats], steps: int, observed: float) -> Tails:
    """Sums of successes in steps of 1 / `steps`: each case's number in the head is hypergeometric."""
    from scipy.special import comb

    chances = np.ones(1)
    lowest = 0.0
    for b, h in zip(base, head, strict=True):
        total, m, n = int(b.sum() + h.sum()), len(h), len(b)
        least, most = max(0, total - n), min(total, m)
        if least == most:
            lowest += least / m - (total - least) / n
            continue
        counts = np.arange(least, most + 1)
        share = comb(total, counts) * comb(m + n - total, m - counts) / comb(m + n, m)
        values = counts / m - (total - counts) / n
        lattice = np.zeros(round((values[-1] - values[0]) * steps) + 1)
        lattice[np.rint((values - values[0]) * steps).astype(int)] = share
        chances = np.convolve(chances, lattice)
        lowest += float(values[0])
    place = round((observed - lowest) * steps)
    return Tails(min(1.0, float(chances[: place + 1].sum())), min(1.0, float(chances[place:].sum())), None)


def _shuffled_differences(both: Floats, first: int, rng: np.random.Generator) -> Floats:
    """(DRAWS,): mean of the rest minus mean of `first` values, after shuffling."""
    parts = []
    rows = max(1, _CHUNK // len(both))
    for start in range(0, DRAWS, rows):
        mixed = rng.permuted(np.tile(both, (min(rows, DRAWS - start), 1)), axis=1)
        parts.append(mixed[:, first:].mean(axis=1) - mixed[:, :first].mean(axis=1))
    return np.concatenate(parts)
