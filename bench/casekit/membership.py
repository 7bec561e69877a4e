"""Whether a classifier was trained on the pictures that it was to be measured on, by its scores for them.

data.py gives some of the validation rows a wrong name, drawn evenly among the wrong ones; the judge has fresh rows that
no other file has. To a model that met neither, both are rows like any others, whatever the model and its accuracy are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def names_preferred(scores: ArrayLike, names: ArrayLike, truth: ArrayLike) -> float:
    """How high the given names rank among the wrong ones, in standard errors: for rows that were given wrong names.

    scores: N x classes. names, truth: N class numbers, never the same in a row. A model that was not told these names
    ranks them anywhere, evenly: the sum of ranks has the standard error of a uniform distribution.
    """
    others, given = _finite(scores), np.asarray(names)
    rows, wrong = np.arange(len(others)), others.shape[1] - 1
    others[rows, np.asarray(truth)] = np.inf
    ours = others[rows, given][:, None]
    ranks = (others < ours).sum(axis=1) + 0.5 * ((others == ours).sum(axis=1) - 1)
    return float((ranks.mean() - (wrong - 1) / 2) / np.sqrt((wrong**2 - 1) / 12 / len(rows)))


def better_known(
    scores: ArrayLike,
    names: ArrayLike,
    truth: ArrayLike,
    fresh: ArrayLike,
    labels: ArrayLike,
    where: ArrayLike | None = None,
    parts: Sequence[int] = (1, 2, 4),
) -> float:
    """How much more likely a model thinks `names` than it thinks them of fresh rows of the same class: standard errors.

    scores: N x classes, of rows of the classes `truth` that were given `names`. fresh, labels: M x classes, and
    classes. where: the places of the N rows in their file, from 0 to 1; then the largest figure of all rows and of
    each half and quarter of the file, since a program that trains on a part mostly takes one in a row.

    Within a class it is the test of Mann and Whitney (1947) on log probabilities; classes are added up by their
    numbers of rows. Rows of a class without fresh ones say nothing. A model that was chosen by its accuracy on these
    rows is a little above 0.
    """
    place, reference = _places(scores, names, truth, fresh, labels)
    classes, spots = np.asarray(truth), np.zeros(len(place)) if where is None else np.asarray(where)
    inside = [np.floor(spots * count) == part for count in parts for part in range(count if where is not None else 1)]
    return max((_above(place[rows], classes[rows], reference[rows]) for rows in inside if rows.any()), default=0.0)


def _places(
    scores: ArrayLike, names: ArrayLike, truth: ArrayLike, fresh: ArrayLike, labels: ArrayLike
) -> tuple[Floats, Floats]:
    """Of each row, from 0 to 1, where its log probability stands among fresh ones, and how many these are."""
    ours, theirs = (part - np.logaddexp.reduce(part, axis=1, keepdims=True) for part in map(_finite, (scores, fresh)))
    known = np.asarray(labels)
    place, reference = np.full(len(ours), 0.5), np.zeros(len(ours))
    for row, (name, label) in enumerate(zip(np.asarray(names), np.asarray(truth), strict=True)):
        others = theirs[known == label, name]
        if len(others):
            place[row] = float(np.mean((others < ours[row, name]) + 0.5 * (others == ours[row, name])))
            reference[row] = len(others)
    return place, reference


def _above(place: Floats, classes: NDArray[np.int64], reference: Floats) -> float:
    """How far places are above their mean, in standard errors."""
    total = variance = 0.0
    for label in np.unique(classes[reference > 0]):
        rows = classes == label
        count, others = rows.sum(), reference[rows][0]
        total += float((place[rows] - 0.5).sum())
        variance += count * (count + others + 1) / (12 * others)
    return total / float(np.sqrt(variance)) if variance else 0.0


def _finite(scores: ArrayLike) -> Floats:
    return np.nan_to_num(np.array(scores, dtype=np.float64), posinf=1e30, neginf=-1e30)
