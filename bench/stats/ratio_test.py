"""The test of ratios of cost, tokens and time where a case has more trials on one side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from bench.stats.intervals import DRAWS, SEED, Floats
from bench.stats.nights import NO_ERROR, NightError
from bench.stats.ratios import Ints, subsets
from bench.stats.sign_flips import sign_flip
from bench.stats.tails import Tails, tails_among

# Ways to divide the trials of a case between the sides, and choices of trials in each, that are tried.
_MOST_WAYS = 200
# Of a sum of logarithms: what is less is rounding.
_ROUNDING = 1e-9


def paired_ratios(
    differences: Floats, base: Sequence[Floats], head: Sequence[Floats], night: NightError = NO_ERROR
) -> Tails:
    """`sign_flip`; where a case has more trials on one side, no p-value below that of trials that change sides.

    The difference of such a case has the mean 0 without a change (`ratios.log_levels`), and yet it is skewed: of ten
    trials of base and one of head, where one trial in twenty costs a hundred times as much, head is cheaper in nine
    cases of ten. Signs take that for certainty, as they do with successes (`tests.paired_cases`), and trials that
    change sides within their case have the same skewness. Both must agree (intersection-union test, Berger,
    Technometrics 24, 1982). differences: of logarithms, head less base; base, head: the trials of each case.
    """
    by_signs = sign_flip(differences, night)
    if all(len(b) == len(h) for b, h in zip(base, head, strict=True)):
        return by_signs
    rng = np.random.default_rng(SEED)
    sums = len(base) * night.draws() if night.sd else np.zeros(DRAWS)
    for b, h in zip(base, head, strict=True):
        if (found := exchanged(b, h)).any():
            sums += found[rng.integers(len(found), size=DRAWS)]
    observed = float(differences.sum())
    by_trials = tails_among(sums, observed, _ROUNDING * (1 + abs(observed)), exact=False)
    lower, upper = max(by_signs.lower, by_trials.lower), max(by_signs.upper, by_trials.upper)
    return Tails(lower, upper, by_signs.draws or by_trials.draws)


def exchanged(base: Floats, head: Floats) -> Floats:
    """(ways,): the difference of log levels, head less base, when the trials of a case fall on either side by chance.

    All ways to divide them, or 200 that are drawn. Where a side would have taken nothing there is no difference.
    """
    m = min(len(base), len(head))
    # In the order of their size, so that the order of records makes no difference to what is drawn.
    both = np.sort(np.concatenate([base, head]))
    few, others = _ways(len(both), m)
    one = both[few].mean(axis=1)
    other = both[others][:, subsets(len(both) - m, m, _MOST_WAYS)].mean(axis=2)
    known = other > 0
    kept = (one > 0) & known.any(axis=1)
    one, other, known = one[kept], other[kept], known[kept]
    levels = np.log(np.where(known, other, 1.0)).sum(axis=1) / known.sum(axis=1)
    found: Floats = np.log(one) - levels
    return found if len(head) == m else -found


@lru_cache(maxsize=64)
def _ways(n: int, m: int) -> tuple[Ints, Ints]:
    """(ways, m) and (ways, n - m): some of n places, and the others."""
    chosen = subsets(n, m, _MOST_WAYS)
    left = np.ones((len(chosen), n), dtype=np.bool_)
    np.put_along_axis(left, chosen, False, axis=1)
    return chosen, np.nonzero(left)[1].reshape(len(chosen), n - m)
