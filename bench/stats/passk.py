"""pass@k and pass^k: what several tries at a case bring, and what they can be relied on for."""

from __future__ import annotations

from math import comb


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
