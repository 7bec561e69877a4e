"""Training by train() as the driver saw it: what the model predicted in every epoch, and the losses that follow."""

from __future__ import annotations

from typing import Any

import numpy as np
from lines import Points, assert_beyond, drawn

from bench.judge import array, mapping, sequence


def fit(ws: Any, points: Points) -> dict[str, Any]:
    keys = ("losses", "told", "path", "final", "beyond", "shapes", "passes", "layers")
    found = ws.drive("driver.py:fit", points.x, points.y, points.probe, points.epochs)
    return mapping(found, keys=keys)


def mild(ws: Any, count: int = 0) -> Points:
    """Data that even the starter can be trained on."""
    return drawn(ws, -1.0, 2.0, 1.0, 0.0, count=count)


def loss_of(points: Points, predicted: Any) -> float:
    """Mean squared error, recomputed; predictions out of all proportion count as infinite."""
    values = array(predicted, shape=points.y.shape, finite=False)
    if not np.isfinite(values).all() or np.abs(values).max() > 1e30:
        return float("inf")
    return float(((values - points.y) ** 2).mean())


def losses_of(points: Points, found: dict[str, Any]) -> list[float]:
    """The true loss of every epoch; all must be finite."""
    path = [loss_of(points, one) for one in sequence(found["path"])]
    assert len(path) == points.epochs, f"the callback was called {len(path)} times in {points.epochs} epochs"
    broken = [epoch for epoch, loss in enumerate(path) if loss == float("inf")]
    assert not broken, f"the model's predictions are not finite from epoch {broken[0] + 1} on"
    return path


def times_the_line(points: Points, found: dict[str, Any]) -> float:
    """How many times the loss of the least-squares line the returned model's loss is, also away from the data."""
    ratio = loss_of(points, found["final"]) / points.best
    beyond = array(found["beyond"], shape=points.truth.shape, finite=False)
    assert_beyond(points, beyond)
    return ratio


def predictions(points: Points, found: dict[str, Any]) -> list[Any]:
    """The predictions of every epoch."""
    return [array(one, shape=points.y.shape) for one in sequence(found["path"], length=points.epochs)]


def at_the_end(points: Points, found: dict[str, Any]) -> Any:
    """The returned model's predictions for the training points and the unseen ones."""
    final, beyond = array(found["final"], shape=points.y.shape), array(found["beyond"], shape=points.truth.shape)
    return np.concatenate([final, beyond])
