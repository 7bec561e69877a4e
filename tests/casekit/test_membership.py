"""Rows that a model was trained on are found by their scores, and honest models are left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.casekit.membership import (
    assert_given_again,
    assert_named_alike_alone,
    better_known,
    mixed,
    names_preferred,
    slightly_changed,
)

CLASSES, ROWS, FRESH = 10, 400, 1000


def scores(rng: np.random.Generator, labels: Any, sharpness: float = 2.0) -> Any:
    """Of a model that is right in most cases, and surer of some classes than of others."""
    found = rng.standard_normal((len(labels), CLASSES)) * np.linspace(0.5, 2, CLASSES)[labels][:, None]
    found[np.arange(len(labels)), labels] += sharpness
    return found


def lead(seed: int, learnt: Any, gain: float, where: bool = True) -> float:
    """Rows in the order of the file, of other shares of classes than the fresh ones; `learnt` of them are known."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(CLASSES, ROWS, p=np.arange(1, CLASSES + 1) / 55)
    fresh = rng.integers(0, CLASSES, FRESH)
    ours = scores(rng, labels)
    rows = np.arange(ROWS)[learnt]
    ours[rows, labels[rows]] += gain
    places = np.arange(ROWS) / ROWS if where else None
    return better_known(ours, labels, labels, scores(rng, fresh), fresh, places)


def test_honest_models_are_nowhere_near_a_lead_of_five() -> None:
    found = np.array([lead(seed, slice(0, 0), 0.0, where=False) for seed in range(300)])
    assert abs(found.mean()) < 0.15
    assert 0.9 < found.std() < 1.1
    assert max(lead(seed, slice(0, 0), 0.0) for seed in range(100)) < 4.5


@pytest.mark.parametrize(
    ("learnt", "gain"),
    [(slice(None), 1.0), (slice(0, 100), 2.0), (slice(200, 400), 1.5), (slice(0, None, 2), 2.0)],
    ids=["all", "a quarter in a row", "a half", "every other"],
)
def test_rows_that_were_trained_on_are_found(learnt: Any, gain: float) -> None:
    assert all(lead(seed, learnt, gain) > 5 for seed in range(20))


def test_a_class_without_fresh_rows_says_nothing() -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1], 200)
    ours, fresh = scores(rng, labels, 9.0), np.zeros(300, int)
    assert better_known(ours[200:], labels[200:], labels[200:], scores(rng, fresh), fresh) == 0.0


def test_scores_that_are_no_numbers_are_no_lead() -> None:
    rng = np.random.default_rng(1)
    labels, fresh = rng.integers(0, CLASSES, ROWS), rng.integers(0, CLASSES, FRESH)
    ours, theirs = scores(rng, labels), scores(rng, fresh)
    ours[:] = np.nan
    theirs[:] = np.nan
    assert better_known(ours, labels, labels, theirs, fresh) == 0.0


def test_wrong_names_that_a_model_was_told_are_preferred_and_others_are_not() -> None:
    found = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, CLASSES, 160)
        names = (truth + rng.integers(1, CLASSES, 160)) % CLASSES
        ours = scores(rng, truth)
        found.append(names_preferred(ours, names, truth))
        ours[np.arange(160), names] += 1.0
        assert names_preferred(ours, names, truth) > 4
    assert abs(np.mean(found)) < 0.2
    assert 0.9 < np.std(found) < 1.1


def test_a_changed_copy_is_near_its_picture_and_never_equal() -> None:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (400, 3, 12, 16)).astype(np.uint8)
    before, changed = pictures.copy(), slightly_changed(np.random.default_rng(1), pictures)
    assert np.array_equal(pictures, before)
    assert (changed.shape, changed.dtype) == (pictures.shape, pictures.dtype)
    inner = [view[:, :, 1:-1, 1:-1].astype(int) for view in (changed, changed[..., ::-1])]
    steps = [(0, 1), (2, 1), (1, 0), (1, 2)]
    moved = [[np.abs(view - pictures[:, :, top : top + 10, left : left + 14].astype(int)).max((1, 2, 3)) <= 2
              for top, left in steps] for view in inner]  # fmt: skip
    ways = np.array(moved).sum((0, 1))
    assert ways.tolist() == [1] * 400
    assert np.array(moved).sum(2).min() >= 25


def test_scores_of_mixed_pictures_come_back_by_part() -> None:
    rng = np.random.default_rng(2)
    parts = [rng.integers(0, 256, (count, 1, 2, 2)).astype(np.uint8) for count in (5, 0, 3)]
    asked, by_part = mixed(rng, *parts)
    assert len(asked) == 8
    assert not np.array_equal(asked, np.concatenate(parts))
    found = by_part(asked.reshape(8, 4).astype(np.float64))
    assert [part.tolist() for part in found] == [part.reshape(-1, 4).tolist() for part in parts]


def test_names_that_hang_on_the_batch_are_told_from_ties_however_large_scores_are() -> None:
    rng = np.random.default_rng(3)
    alone = scores(rng, rng.integers(CLASSES, size=100))
    assert_named_alike_alone(alone + 1e-6 * rng.standard_normal(alone.shape), alone)
    tie = alone.copy()
    tie[0] = -tie[0]
    assert_named_alike_alone(tie, alone)
    tie[1] = -tie[1]
    for size in (1e-6, 1.0, 1e6):
        offsets = 1e6 * rng.standard_normal((100, 1))
        with pytest.raises(AssertionError, match="2 of 100 pictures are named otherwise"):
            assert_named_alike_alone(size * tie + size * offsets, size * alone + size * offsets)


def test_scores_that_move_between_calls_are_told_from_rounding_however_large_scores_are() -> None:
    rng = np.random.default_rng(4)
    given = scores(rng, rng.integers(CLASSES, size=200))
    drift = 0.05 * rng.standard_normal(CLASSES)
    for size in (1e-6, 1.0, 1e6):
        assert_given_again(size * given, size * (given[:50] + 1e-6 * rng.standard_normal((50, CLASSES))))
        for scale in (0.0, 1e3):
            offset = scale * np.eye(CLASSES)[0]
            with pytest.raises(AssertionError, match="comes again"):
                assert_given_again(size * (given + offset), size * (given[:50] + offset + drift))
    with pytest.raises(AssertionError, match="makes an array"):
        assert_given_again(given, given[0])
