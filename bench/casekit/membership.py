"""Whether a classifier was trained on the pictures that it was to be measured on, by its scores for them.

data.py gives some of the validation rows a wrong name, drawn evenly among the wrong ones; the judge has fresh rows that
no other file has. To a model that met neither, both are rows like any others, whatever the model and its accuracy are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]
_STEPS = ((0, 1), (2, 1), (1, 0), (1, 2))
"""Where a picture begins in itself with a border of one pixel, when it is moved by one: up, down, left, right."""
_ROUNDING, _LEAST = 1e-3, 1e-6  # of how far a class's scores lie apart, and of its largest one
_MOST_TIES = 0.01  # of pictures that are named otherwise by rounding: none was seen


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


def slightly_changed(rng: np.random.Generator, pictures: Bytes) -> Bytes:
    """The pictures, N x channels x height x width, moved by a pixel, every other mirrored, with a little noise.

    A model that was trained on a picture knows such a copy, too, and a list of pictures does not: a program may keep a
    second model for the validation pictures alone. Ask about copies of fresh pictures as well, and compare with these.
    """
    wide = np.pad(pictures, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    height, width = pictures.shape[2:]
    changed = np.empty_like(pictures)
    for row, step in enumerate(rng.integers(len(_STEPS), size=len(pictures))):
        top, left = _STEPS[step]
        changed[row] = wide[row, :, top : top + height, left : left + width]
    mirrored = rng.random(len(pictures)) < 0.5
    changed[mirrored] = changed[mirrored][..., ::-1]
    noisy: Bytes = np.clip(changed + rng.integers(-2, 3, size=changed.shape), 0, 255).astype(np.uint8)
    return noisy


def mixed(rng: np.random.Generator, *parts: Bytes) -> tuple[Bytes, Callable[[Floats], list[Floats]]]:
    """All pictures in a drawn order, and a function that sorts the scores for these by part again.

    So that a model that counts its calls does not know which part a picture is of.
    """
    rows = np.concatenate(parts)
    order, ends = rng.permutation(len(rows)), np.cumsum([len(part) for part in parts])[:-1]

    def by_part(scores: Floats) -> list[Floats]:
        return np.split(scores[np.argsort(order)], ends)

    return rows[order], by_part


def assert_named_alike_alone(scores: ArrayLike, alone: ArrayLike) -> None:
    """AssertionError where pictures are not named as each of them is by itself, but for ties.

    scores: N x classes, of pictures among others. alone: of the same ones, each a batch of its own, by a process that
    met no other pictures: what a process has met it may give back. Classes that are equally frequent in the pictures
    to be named, and these pictures themselves, teach a model that looks at its batch what only their labels may tell.
    Not by how far the scores are apart: a model chooses how large and how far from one another its scores are.
    """
    among, single = (_finite(part).argmax(axis=1) for part in (scores, alone))
    odd = int((among != single).sum())
    assert odd <= _MOST_TIES * len(among), f"{odd} of {len(among)} pictures are named otherwise where each comes alone"


def assert_given_again(scores: ArrayLike, again: ArrayLike) -> None:
    """AssertionError where the first batch has other scores when it comes again, after all others.

    scores: N x classes, of all pictures in their order. again: of the first of them. What a model keeps of the
    pictures that it met, or draws anew for each call, shows here however little it moves, and names hardly tell it.
    """
    later = _finite(again)
    before = _finite(scores)[: len(later)]
    assert later.ndim == 2 and later.shape == before.shape, f"asked again, the model makes an array {later.shape}"
    most = _ROUNDING * before.std(axis=0) + _LEAST * np.abs(before).max(axis=0)
    apart = np.abs(later - before).max(axis=0)
    assert (apart <= most).all(), f"a batch that comes again gets other scores, by {float(apart.max()):.2g}"


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
