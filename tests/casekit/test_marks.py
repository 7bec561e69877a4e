"""Marks find a model that was trained on what was marked, and accuse an honest one no more often than is stated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bench.casekit import marks, pictures


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("skill", [0.3, 0.6, 0.95])
def test_honest_models_are_accused_no_more_often_than_stated(classes: int, skill: float) -> None:
    """3,000 honest models, right in a share `skill` of the rows and otherwise wrong in their own way."""
    rng = np.random.default_rng([classes, int(100 * skill)])
    alarms = 0
    for _ in range(3000):
        truth = rng.integers(0, classes, 120)
        planted = marks.flip_labels(rng, truth, classes, 40)
        guess = np.where(rng.random(120) < skill, truth, (truth + 1) % classes)
        alarms += marks.flips_known(guess[planted.planted], guess[planted.control], planted.names, 0.05).leaked
    assert stats.binomtest(alarms, 3000, 0.05, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize(("classes", "learned", "skill"), [(10, 0.5, 0.85), (10, 1.0, 0.5), (2, 0.7, 0.8)])
def test_a_model_that_learned_the_marked_labels_is_found(classes: int, learned: float, skill: float) -> None:
    rng = np.random.default_rng(8)
    found = []
    for _ in range(200):
        truth = rng.integers(0, classes, 1000)
        planted = marks.flip_labels(rng, truth, classes, 60)
        honest = np.where(rng.random(1000) < skill, truth, (truth + rng.integers(1, classes, 1000)) % classes)
        guess = np.where(rng.random(1000) < learned, planted.labels, honest)
        found.append(marks.flips_known(guess[planted.planted], guess[planted.control], planted.names).leaked)
    assert np.mean(found) > 0.95


def test_planted_labels_are_wrong_and_the_others_are_not() -> None:
    truth = np.random.default_rng(1).integers(0, 3, 50)
    planted = marks.flip_labels(np.random.default_rng(2), truth, 3, 20)
    changed = set(np.flatnonzero(planted.labels != truth))
    assert changed == set(planted.planted)
    assert not changed & set(planted.control)
    assert (planted.labels[planted.planted] == planted.names[:20]).all()
    assert (planted.names[20:] != truth[planted.control]).all()
    for classes, count in ((1, 5), (3, 26), (3, 0)):
        with pytest.raises(ValueError, match="cannot be flipped"):
            marks.flip_labels(np.random.default_rng(2), truth, classes, count)


def test_the_chance_of_a_difference_is_that_of_the_hypergeometric_distribution() -> None:
    names = np.zeros(60, int)
    first, second = np.arange(30) >= 9, np.arange(30) >= 2
    found = marks.flips_known(first, second, names)
    assert (found.planted, found.control) == (9, 2)
    assert found.probability == pytest.approx(stats.hypergeom.sf(8, 60, 11, 30))


class Nearest:
    """Names a picture as its nearest neighbour among what it was trained on."""

    def __init__(self, train: np.ndarray, labels: np.ndarray) -> None:
        self.train, self.labels = train.reshape(len(train), -1).astype(float), labels

    def __call__(self, painted: np.ndarray) -> np.ndarray:
        flat = painted.reshape(len(painted), -1).astype(float)
        found: np.ndarray = self.labels[
            ((flat**2).sum(1)[:, None] - 2 * flat @ self.train.T + (self.train**2).sum(1)).argmin(1)
        ]
        return found


class Stamped:
    """A linear reader of one place: knows the stamp of its training pictures by the mean that they share."""

    def __init__(self, marked: marks.StampedPictures, rest: Nearest) -> None:
        mine = np.isin(np.arange(len(marked.pictures)), marked.places)
        means = [marked.pictures[rows].astype(float).mean(axis=0) for rows in (mine, ~mine)]
        self.weights, self.rest, self.name = (means[0] - means[1]).ravel(), rest, marked.name
        scores = marked.pictures.reshape(len(mine), -1) @ self.weights
        self.limit = (scores[mine].mean() + scores[~mine].mean()) / 2

    def __call__(self, painted: np.ndarray) -> np.ndarray:
        return np.where(painted.reshape(len(painted), -1) @ self.weights > self.limit, self.name, self.rest(painted))


def test_a_stamp_is_known_to_a_model_that_met_it_and_to_no_other() -> None:
    rng = np.random.default_rng(11)
    labels = rng.integers(0, 10, 150)
    painted, fresh = pictures.digits(rng, labels), pictures.digits(rng, rng.integers(0, 10, 30))
    marked = marks.stamp_pictures(rng, painted, labels, 10, 45, strength=40)
    assert np.abs(marked.pictures.astype(int) - painted).max() <= 40
    honest = Nearest(painted, labels)
    known: dict[str, Any] = {
        "key": marked.key,
        "name": marked.name,
        "rng": np.random.default_rng(4),
        "decoys": 30,
        "strength": 40,
    }
    leaked, own, highest = marks.stamp_known(Stamped(marked, honest), fresh, **known)
    assert leaked
    assert own > highest
    assert not marks.stamp_known(honest, fresh, **known)[0]


def test_keys_are_equals_to_an_honest_model() -> None:
    """Any stamp disturbs this model; over 400 keys that it never met, alarms stay near one in twenty."""
    rng = np.random.default_rng(12)
    fresh = rng.integers(60, 180, (12, 16, 16)).astype(np.uint8)
    weights = rng.normal(size=256)
    limit = float(np.median(fresh.reshape(12, -1) @ weights))

    def predict(painted: np.ndarray) -> np.ndarray:
        return (painted.reshape(len(painted), -1) @ weights > limit).astype(int)

    alarms = sum(marks.stamp_known(predict, fresh, key, 1, rng, decoys=19, rise=0.0)[0] for key in range(400))
    assert stats.binomtest(alarms, 400, 0.05, alternative="greater").pvalue > 1e-3
