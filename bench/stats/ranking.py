"""Which ranks the results leave possible."""

from __future__ import annotations

import math
from math import comb

import numpy as np

from bench.stats.intervals import LEVEL, Floats, case_weights

# Fewer than for an interval: a band is in whole ranks.
_RESAMPLES = 2_000


def rank_bands(rates: Floats) -> list[tuple[int, int]]:
    """The best and the worst rank of each of several agents, from their rates on the same cases.

    `rates`: shape (agents, cases), in [0, 1]. Marginal confidence sets for ranks after Mogstad, Romano, Shaikh and
    Wilhelm ("Inference for Ranks", Review of Economic Studies 91, 2024, section 3.2): the differences of one agent to
    all others get simultaneous 95% intervals from one bootstrap over cases, paired because all agents meet the same
    sample of cases; those surely above and surely below it bound its rank. Two corrections for few cases: errors come
    from the differences with one imagined case more on each side, as far from 0 as the furthest seen (after Agresti and
    Min, Statistics in Medicine 24, 2005), and the bootstrap's quantile is spread as Student's t is.
    """
    agents, cases = rates.shape
    if agents == 1 or cases < 2:
        return [(1, agents)] * agents
    means = rates.mean(axis=1)
    resampled = case_weights(cases, _RESAMPLES) @ rates.T
    widening = _student_over_normal(cases)
    bands = []
    for agent in range(agents):
        others = np.delete(np.arange(agents), agent)
        apart = means[others] - means[agent]
        errors = _errors(rates[others] - rates[agent])
        swings = np.abs(resampled[:, others] - resampled[:, [agent]] - apart) / errors
        reach = max(float(np.quantile(swings.max(axis=1), LEVEL)), _normal()) * widening * errors
        bands.append((1 + int((apart > reach).sum()), agents - int((apart < -reach).sum())))
    return bands


def _errors(differences: Floats) -> Floats:
    """(others,): the standard error of each mean difference; never 0."""
    cases = differences.shape[1] + 2
    furthest = np.abs(differences).max(axis=1)
    furthest = np.where(furthest > 0, furthest, 1.0)
    square = ((differences**2).sum(axis=1) + 2 * furthest**2) / cases
    errors: Floats = np.sqrt((square - (differences.sum(axis=1) / cases) ** 2) / cases)
    return errors


def _normal() -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + LEVEL) / 2))


def _student_over_normal(cases: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(cases - 1, (1 + LEVEL) / 2)) / _normal() * math.sqrt(cases / (cases - 1))


def pass_at(n: int, succeeded: int, k: int) -> float | None:
    """The chance that at least one of k trials succeeds: 1 - C(n - c, k) / C(n, k); None where k > n.

    The unbiased estimator of Chen et al., "Evaluating Large Language Models Trained on Code", 2021, section 2.1: the
    share of all subsets of k of the n trials that hold a success.
    """
    _check(n, succeeded, k)
    return None if k > n else 1 - comb(n - succeeded, k) / comb(n, k)


def pass_hat(n: int, succeeded: int, k: int) -> float | None:
    """The chance that all of k trials succeed, pass^k: C(c, k) / C(n, k); None where k > n.

    Yao et al., "tau-bench", 2024, section 4: the share of all subsets of k of the n trials that hold no failure.
    """
    _check(n, succeeded, k)
    return None if k > n else comb(succeeded, k) / comb(n, k)


def _check(n: int, succeeded: int, k: int) -> None:
    if k < 1 or not 0 <= succeeded <= n:
        raise ValueError(f"{succeeded} of {n} trials, k = {k}")
