"""The formulas of the trends against references: scipy, brute force, and figures of statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import toeplitz

from bench.stats.intervals import Floats
from bench.stats.night_sums import NightSums, covariance_of_means, variance_of_mean
from bench.stats.step_causes import _arrangements, _moved
from bench.stats.steps import LATE, look_all, look_level
from tests.benchmarks.difficulty import CEILING, MIXTURES
from tests.benchmarks.trend_alarms import Setting, delays, false_alarms, rate, seen_within

LYNX = [269, 321, 585, 871, 1475, 2821, 3928, 5943, 4950, 2577, 523, 98]
"""The first twelve years of R's `lynx`."""


def sums_of(table: Floats) -> NightSums:
    return NightSums(table, table.mean(axis=1), np.full(len(table), float(table.shape[1])))


def whole(table: Floats) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], ...]:
    return np.array([0]), np.array([len(table)])


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (8, 2), (60, 10)])
def test_means_of_correlated_nights_vary_as_their_matrix_says(n: int, k: int, rho: float) -> None:
    matrix = toeplitz(rho ** np.arange(n + k))
    first = np.r_[np.full(n, 1 / n), np.zeros(k)]
    second = np.r_[np.zeros(n), np.full(k, 1 / k)]
    r = np.array(rho)
    assert variance_of_mean(np.array(n), r) == pytest.approx(first @ matrix @ first, rel=1e-12)
    assert covariance_of_means(np.array(n), np.array(k), r) == pytest.approx(first @ matrix @ second, abs=1e-14)


def test_the_noise_of_trials_is_the_variance_of_each_case() -> None:
    table = np.random.default_rng(3).random((20, 7))
    noise = sums_of(table).noise(*whole(table))
    assert noise.trials[0] == pytest.approx(np.var(table, axis=0, ddof=1).mean() / 7, rel=1e-12)
    table[3, 2] = np.nan
    values = np.nanmean(table, axis=1)
    noise = NightSums(table, values, np.full(20, 7.0)).noise(*whole(table))
    per_case = [np.var(column[np.isfinite(column)], ddof=1) for column in table.T]
    assert noise.trials[0] == pytest.approx(np.mean(per_case) / (139 / 20), rel=1e-12)


def test_the_autocorrelation_is_that_of_statsmodels(monkeypatch: pytest.MonkeyPatch) -> None:
    """`statsmodels.tsa.stattools.acf(LYNX, nlags=1)[1]` of statsmodels 0.15; all of the variance is the nights'."""
    acf = 0.7114497876495436
    monkeypatch.setattr("bench.stats.night_sums.RHO_WEIGHT", 0.0)
    table = np.repeat(np.array(LYNX, dtype=np.float64)[:, None] / 10_000, 2_000, axis=1)
    noise = sums_of(table).noise(*whole(table))
    share = 1 - 1 / 2_000
    corrected = acf + (1 + 3 * acf) / len(LYNX)
    assert noise.rho[0] == pytest.approx(min(0.9, corrected / share), rel=1e-9)


def test_nights_without_correlation_give_students_test() -> None:
    """With rho = 0: the spread of the nights before, as of a known number of nights after; from scipy's Student."""
    before, after = np.array([0.5, 0.7] * 10), np.array([0.3, 0.32, 0.28])
    table = np.repeat(np.r_[before, after][:, None], 400, axis=1)
    sums = sums_of(table)
    variance, freedom = sums.variance_of_change(np.array([0]), np.array([20]), np.array([3]))
    assert variance[0] == pytest.approx(np.var(before, ddof=1) * (1 / 20 + 1 / 3), rel=1e-9)
    assert freedom[0] == pytest.approx(19, rel=0.01), "the trials' part is a 400th"
    counts, p = look_all(sums, 0, 0.05)
    assert counts[23] == 3
    expected = stats.t.sf((before.mean() - after.mean()) / np.sqrt(variance[0]), freedom[0])
    assert p[23] == pytest.approx(expected, rel=1e-9)


def test_trials_alone_give_the_normal_test_and_weigh_by_their_number() -> None:
    rng = np.random.default_rng(8)
    table = rng.permuted(np.tile([0.0, 1.0] * 20, (50, 1)), axis=1).T
    values = np.full(40, 0.5)
    cells = np.r_[np.full(30, 50.0), np.full(10, 25.0)]
    variance, freedom = NightSums(table, values, cells).variance_of_change(
        np.array([0]), np.array([30]), np.array([10])
    )
    trials = np.var(table[:30], axis=0, ddof=1).mean() / 50
    assert variance[0] == pytest.approx(trials * (1 / 30 + 2 / 10), rel=1e-9)
    assert freedom[0] == 1e6


def test_a_case_that_never_failed_has_noise_all_the_same() -> None:
    table = np.ones((10, 1))
    assert sums_of(table).noise(*whole(table)).trials[0] == pytest.approx(11 / 12**2)
    rows = np.r_[np.ones(12), 0.0, 0.0][:, None]
    exact = stats.fisher_exact([[12, 0], [0, 2]], alternative="greater").pvalue
    assert exact < look_all(sums_of(rows), 0, 0.05)[1][14] < 5 * exact


def test_early_looks_may_cost_more_and_all_later_ones_the_same() -> None:
    levels = [look_level(nights) for nights in range(1, 400)]
    assert levels == sorted(levels, reverse=True)
    assert len(set(levels[LATE:])) == 1


@pytest.mark.parametrize(("n", "k"), [(12, 4), (40, 6)])
def test_a_case_moved_with_the_p_of_a_permutation_test(n: int, k: int) -> None:
    values = np.random.default_rng(n).random(n)
    (found,) = _moved(["case"], values[:, None], n - k, 0)
    reference = stats.permutation_test(
        (values[: n - k], values[n - k :]),
        lambda x, y, axis: np.abs(x.mean(axis=axis) - y.mean(axis=axis)),
        vectorized=True,
        alternative="greater",
        n_resamples=9_999,
        rng=np.random.default_rng(1),
    )
    assert found.p == pytest.approx(reference.pvalue, abs=1e-9 if len(_arrangements(n, k)) < 9_999 else 0.02)
    assert found.now == pytest.approx(values[n - k :].mean())


def test_of_many_cases_the_p_is_holms() -> None:
    table = np.r_[np.ones((12, 3)), np.c_[np.zeros(4), np.ones((4, 2))]]
    moved = _moved(["broken", "same", "also"], table, 12, 0)
    assert [(it.name, it.before, it.now) for it in moved] == [("broken", 1, 0), ("also", 1, 1), ("same", 1, 1)]
    assert [it.p for it in moved] == pytest.approx([3 / 1820, 1, 1])


@pytest.mark.parametrize(("sd", "rho"), [(0.0, 0.0), (0.6, 0.5)])
def test_a_sample_of_the_benchmark_keeps_its_bars(sd: float, rho: float) -> None:
    """With few repetitions; `python -m tests.benchmarks.trend_alarms` has all settings."""
    setting = Setting(MIXTURES[0], 50, 1, sd, rho)
    years = 6
    alarms = false_alarms(setting, years, np.random.default_rng(5))
    assert rate(alarms, years).low <= 1
    if not sd:
        seen, of = seen_within(delays(setting, "everywhere", 10, 60, np.random.default_rng(6)))
        assert seen / of >= 0.9


def test_rare_failures_of_few_trials_raise_no_false_alarms() -> None:
    # Three in four nights of 20 trials have none or one failure: their means are far from normal.
    setting, years = Setting(CEILING, 20, 1, 0.0, 0.0), 20
    assert rate(false_alarms(setting, years, np.random.default_rng(7)), years).high < 1


def test_failures_after_a_step_are_counted_against_those_before() -> None:
    table = np.ones((62, 20))
    table[np.arange(18) * 3, np.arange(18)] = 0.0
    table[[60] * 4 + [61] * 4, [1, 5, 7, 9, 2, 3, 11, 12]] = 0.0
    first, end, k = (np.array([at]) for at in (0, 60, 2))
    change = table[60:].mean() - table[:60].mean()
    sums = sums_of(table)
    variance = sums.noise(first, end).trials * (1 / 60 + 1 / 2)
    found = float(sums.p_of_events(first, end, k, np.array([change]), variance)[0])
    exact = float(stats.binom.sf(7, 26, 2 / 62))
    assert found == pytest.approx(exact, rel=0.5), "26 failures, eight of them in two of 62 nights"
    assert found > 1000 * float(stats.norm.cdf(change / np.sqrt(variance[0]))), (
        "the normal test is surer than it may be"
    )
    # Where success is as likely as failure, this comes to the normal test.
    half = sums_of(np.tile([[0.0, 1.0] * 10, [1.0, 0.0] * 10], (31, 1)))
    own = half.noise(first, end).trials * (1 / 60 + 1 / 2)
    sure = float(half.p_of_events(first, end, k, np.array([-0.3]), own)[0])
    assert sure == pytest.approx(float(stats.norm.cdf(-0.3 / np.sqrt(own[0]))), rel=0.3)
