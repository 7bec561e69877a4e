"""The measure of this task, to score predictions for pictures that you set aside. Do not modify this file."""

import numpy as np


def average_precision(true, named, most=20):
    """Of one picture: `true` categories, and the `named` ones, best first."""
    hits, total = 0, 0.0
    for rank, category in enumerate(named[:most], start=1):
        if category in true:
            hits += 1
            total += hits / rank
    return total / min(len(true), most)


def area(deep, scores):
    """Chance that a deep picture has a larger score than a shallow one; equal scores count one half."""
    scores, deep = np.asarray(scores, float), np.asarray(deep, bool)
    above = scores[deep][:, None] - scores[~deep][None, :]
    return float((above > 0).mean() + 0.5 * (above == 0).mean())


def score(true, named, deep, osd):
    """Half of (2 x area - 1) and half of the mean average precision."""
    precision = np.mean([average_precision(*pair) for pair in zip(true, named)])
    return 0.5 * (2 * area(deep, osd) - 1 + precision)
