"""The test of paired differences by flipping their signs, with a mean that is freed of skewness.

What breaks few cases for good leaves differences with a long tail on one side. Their mean and their spread then move
together: the more cases were drawn that broke, the larger the spread, and a mean that is held against it sees less than
it could. Hall's transformation takes the first term of this out (JRSS B 54, 1992). Signs decide what the mean so freed
is compared with, so that the test stays exact where each difference is as likely with the other sign; and where a
change skews the differences but leaves their mean, it errs hardly more often: `python -m tests.benchmarks.verdicts`.
"""

from __future__ import annotations

import numpy as np

from bench.stats.intervals import Floats, signs
from bench.stats.nights import NO_ERROR, NightError
from bench.stats.tails import Tails, tails_among

MOST_EXACT = 15
"""Pairs up to which every one of the 2^n signs is tried."""
# Of mean squares: differences that vary less are alike, and the skewness of what is left is rounding.
_NO_SPREAD = 1e-9
# Of the root of the mean square: means that differ less are equal but for rounding.
_ROUNDING = 1e-8


def sign_flip(differences: Floats, night: NightError = NO_ERROR) -> Tails:
    """The test of paired differences, one a case, by flipping their signs (Fisher, The Design of Experiments, 1935).

    `differences`: shape (cases,). Without a change base and head could be exchanged in every case, so that each
    difference is as likely with the other sign; with equally many trials on both sides that is exact, with unequal
    numbers in the limit of many cases. The statistic is `freed_mean`. Exact up to 15 differences that are not 0, above
    by `DRAWS` draws with `SEED`. The error of `night`, which all cases share, is added to the means that are drawn. A
    night moves some cases and leaves those that are sure, which skews the differences without a change; so the mean
    is freed of skewness only as far as its error is that of cases (`share_of_cases`).
    """
    moved = differences[differences != 0]
    n = len(moved)
    if n == 0:
        return Tails(1.0, 1.0, None)
    exact = n <= MOST_EXACT and not night.sd
    tried = all_signs(n) if exact else signs(n)
    cases, squares = len(differences), float((moved * moved).sum())
    share = share_of_cases(squares, cases, night)
    drawn = freed_mean(tried @ moved, tried @ moved**3, squares, cases, share)
    observed = float(freed_mean(moved.sum(), (moved**3).sum(), squares, cases, share))
    slack = _ROUNDING * (squares / cases) ** 0.5
    return tails_among(drawn + night.draws() if night.sd else drawn, observed, slack, exact=exact)


def flipped_chances(
    differences: Floats, tried: Floats, night: NightError = NO_ERROR, shifts: Floats | float = 0.0, *, exact: bool
) -> Floats:
    """(rounds,): the chance of a mean as low as that of each row of `differences`, shape (rounds, cases).

    `sign_flip` for many experiments at once, with the same signs `tried`, shape (draws, cases), for all. shifts: shape
    (rounds,), what the night added to each mean.
    """
    cases = differences.shape[1]
    squares, cubes = (differences**2).sum(axis=1), differences**3
    share = share_of_cases(squares, cases, night)
    drawn = freed_mean(differences @ tried.T, cubes @ tried.T, squares[:, None], cases, share[:, None])
    drawn += night.draws()[-len(tried) :] if night.sd else 0.0
    observed = freed_mean(differences.sum(axis=1), cubes.sum(axis=1), squares, cases, share) + shifts
    hits = (drawn <= (observed + _ROUNDING * np.sqrt(squares / cases))[:, None]).sum(axis=1)
    found: Floats = hits / len(tried) if exact else (1 + hits) / (1 + len(tried))
    return found


def share_of_cases(squares: Floats | float, cases: int, night: NightError) -> Floats:
    """Of the variance of the mean, how much comes of cases and not of nights; 1 where nights add nothing."""
    of_cases = np.asarray(squares) / cases**2
    return of_cases / np.maximum(of_cases + night.sd**2, 1e-300) if night.sd else np.ones_like(of_cases)


def freed_mean(
    sums: Floats | float, cubes: Floats | float, squares: Floats | float, cases: int, share: Floats | float = 1.0
) -> Floats:
    """The mean of differences without what their skewness does to it, to the first order.

    From the sums of the differences, of their third powers and of their squares, over so many `cases`: the mean whose
    ratio to the standard deviation is `freed_ratio`, with the same squares; or the mean, moved by this `share` of the
    way there. It is odd, so that turned differences give the turned mean; without skewness it is the mean itself.
    """
    mean, square = np.asarray(sums) / cases, np.asarray(squares) / cases
    variance = square - mean * mean
    alike = variance <= _NO_SPREAD * square
    spread = np.sqrt(np.where(alike, 1.0, variance))
    # Products, since numpy takes a third power by logarithms: many times slower.
    skewness = (np.asarray(cubes) / cases - mean * (3 * square - 2 * mean * mean)) / (spread * spread * spread)
    freed = freed_ratio(mean / spread, skewness, cases)
    goal = np.where(alike, np.sign(mean), freed / np.sqrt(1 + freed * freed)) * np.sqrt(square)
    return mean + share * (goal - mean)


def freed_ratio(ratio: Floats, skewness: Floats, cases: int) -> Floats:
    """A mean over its standard deviation, so transformed that skewness has no part in it to the first order.

    T + g T^2 / 3 + g^2 T^3 / 27 + g / (6 cases) (Hall, On the removal of skewness by transformation, JRSS B 54, 1992).
    """
    third = skewness * ratio / 3
    return ratio * (1 + third * (1 + third / 3)) + skewness / (6 * cases)


def all_signs(n: int) -> Floats:
    """(2^n, n) of -1 and 1."""
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    return 1.0 - 2.0 * bits.astype(np.float64)
