"""Measures of predictions, in numpy: for checks, and for data.py to show that its data has a signal.

All take arrays of one length, in the order (truth, prediction), that were validated before: a ValueError here is an
error of the case. Those of classes take whole numbers or texts.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _pair(truth: ArrayLike, predicted: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    left, right = np.asarray(truth), np.asarray(predicted)
    if left.ndim != 1 or left.shape != right.shape or not len(left):
        raise ValueError(f"two lists of the same length are needed, they are {left.shape} and {right.shape}")
    return left, right


def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Share of rows whose class is right, in [0, 1]."""
    left, right = _pair(truth, predicted)
    return float((left == right).mean())


def balanced_accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Mean over the classes of `truth` of the share of its rows that are right (mean recall), in [0, 1]."""
    left, right = _pair(truth, predicted)
    return float(np.mean([(right[left == name] == name).mean() for name in np.unique(left)]))


def f1(truth: ArrayLike, predicted: ArrayLike, average: Literal["binary", "macro"] = "macro") -> float:
    """2 TP / (2 TP + FP + FN) of class 1, or its mean over all classes that occur in either list; in [0, 1].

    A class without a row in either denominator counts as 0, as in scikit-learn.
    """
    left, right = _pair(truth, predicted)
    names = np.array([1]) if average == "binary" else np.union1d(left, right)
    both = [2 * int(((left == name) & (right == name)).sum()) for name in names]
    all_rows = [int((left == name).sum() + (right == name).sum()) for name in names]
    return float(np.mean([hits / rows if rows else 0.0 for hits, rows in zip(both, all_rows, strict=True)]))


def rmse(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Root of the mean squared error, in the unit of the values."""
    left, right = _pair(truth, predicted)
    return float(np.sqrt(np.mean((left.astype(float) - right.astype(float)) ** 2)))


def mae(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Mean absolute error, in the unit of the values."""
    left, right = _pair(truth, predicted)
    return float(np.mean(np.abs(left.astype(float) - right.astype(float))))


def rmsle(truth: ArrayLike, predicted: ArrayLike) -> float:
    """`rmse` of log(1 + value); ValueError for values of -1 and below."""
    left, right = (side.astype(float) for side in _pair(truth, predicted))
    if min(left.min(), right.min()) <= -1:
        raise ValueError("the logarithm needs values above -1")
    return rmse(np.log1p(left), np.log1p(right))


def log_loss(truth: ArrayLike, probabilities: ArrayLike, epsilon: float = 1e-15) -> float:
    """Mean of -log(probability of the true class), in nats.

    truth: class numbers from 0. probabilities: rows x classes, or of class 1 alone where there are two. Rows are made
    to sum to 1, and then clipped to [epsilon, 1 - epsilon].
    """
    classes, shares = np.asarray(truth), np.asarray(probabilities, float)
    shares = np.stack([1 - shares, shares], axis=1) if shares.ndim == 1 else shares
    if shares.ndim != 2 or classes.shape != shares.shape[:1] or not len(classes) or classes.dtype.kind not in "iub":
        raise ValueError(f"shapes {classes.shape} and {shares.shape} of classes and probabilities do not fit")
    sums = shares.sum(axis=1, keepdims=True)
    if shares.min() < 0 or sums.min() <= 0 or not 0 <= classes.min() <= classes.max() < shares.shape[1]:
        raise ValueError("a negative probability, a row without any, or a class without a column")
    chosen = (shares / sums)[np.arange(len(classes)), classes.astype(int)]
    return float(-np.log(np.clip(chosen, epsilon, 1 - epsilon)).mean())


def auc(truth: ArrayLike, scores: ArrayLike) -> float:
    """Area under the ROC curve: the share of pairs of a 1 and a 0 whose scores are in that order; ties count half.

    By ranks, as the statistic of Mann and Whitney (1947). ValueError where `truth` does not hold both 0 and 1.
    """
    labels, values = _pair(truth, scores)
    ones = labels == 1
    positive, negative = int(ones.sum()), int((labels == 0).sum())
    if not positive or not negative or positive + negative != len(labels):
        raise ValueError("labels 0 and 1 are needed, and both of them")
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return float((ranks[ones].sum() - positive * (positive + 1) / 2) / (positive * negative))
