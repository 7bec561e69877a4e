"""Measures agree with other implementations, and with values worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from bench.casekit import metrics

RNG = np.random.default_rng(2**100)


def test_measures_of_classes_and_of_scores_agree_with_scikit_learn() -> None:
    other = pytest.importorskip("sklearn.metrics")
    for classes in (2, 3, 7):
        truth, guess = RNG.integers(0, classes, (2, 60))
        truth[:classes] = range(classes)
        shares = RNG.random((60, classes)) + 0.01
        shares /= shares.sum(axis=1, keepdims=True)
        assert metrics.accuracy(truth, guess) == pytest.approx(other.accuracy_score(truth, guess))
        assert metrics.balanced_accuracy(truth, guess) == pytest.approx(other.balanced_accuracy_score(truth, guess))
        assert metrics.f1(truth, guess) == pytest.approx(other.f1_score(truth, guess, average="macro"))
        assert metrics.log_loss(truth, shares) == pytest.approx(other.log_loss(truth, shares))
    truth, scores = RNG.integers(0, 2, 80), RNG.integers(0, 9, 80)
    assert metrics.auc(truth, scores) == pytest.approx(other.roc_auc_score(truth, scores))
    assert metrics.f1(truth, scores > 4, "binary") == pytest.approx(other.f1_score(truth, scores > 4))


def test_measures_of_amounts_are_those_worked_out_by_hand() -> None:
    truth, guess = [1, 2, 4], [1.0, 4.0, 1.0]
    assert metrics.rmse(truth, guess) == pytest.approx(math.sqrt(13 / 3))
    assert metrics.mae(truth, guess) == pytest.approx(5 / 3)
    logs = [math.log(3 / 5), math.log(5 / 2)]
    assert metrics.rmsle(truth, guess) == pytest.approx(math.sqrt((logs[0] ** 2 + logs[1] ** 2) / 3))
    assert metrics.log_loss([1, 0], [0.8, 0.5]) == pytest.approx(-(math.log(0.8) + math.log(0.5)) / 2)
    assert metrics.log_loss([1], [0.0]) == pytest.approx(-math.log(1e-15))
    assert metrics.auc([0, 1, 1, 0], [1, 2, 1, 0]) == 3.5 / 4
    assert metrics.accuracy(["a", "b"], ["a", "c"]) == 0.5
    assert metrics.f1(["a", "b"], ["a", "c"]) == pytest.approx(1 / 3)


def test_what_cannot_be_measured_is_an_error_of_the_case() -> None:
    faults: list[Callable[[], float]] = [
        lambda: metrics.accuracy([1], [1, 2]),
        lambda: metrics.rmse([], []),
        lambda: metrics.rmsle([1], [-1]),
        lambda: metrics.auc([1, 1], [0, 1]),
        lambda: metrics.auc([0, 1, 2], [0, 1, 2]),
        lambda: metrics.log_loss([0, 2], [[0.5, 0.5], [0.5, 0.5]]),
        lambda: metrics.log_loss([0], [[-0.5, 1.5]]),
        lambda: metrics.log_loss([0.0], [[0.5, 0.5]]),
    ]
    for fault in faults:
        with pytest.raises(ValueError, match=r"."):
            fault()
