"""Compares what one promised call has returned with what it must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from lines import Points, assert_beyond

from bench.judge import Tensor, array, mapping, numbers, sequence, string


def given(points: Points) -> dict[str, Any]:
    return {"x": Tensor(points.x), "y": Tensor(points.y)}


def unseen(points: Points) -> list[Any]:
    """The unseen points, and many on one side of them to stand beside."""
    high = float(points.probe.max())
    beside = np.linspace(high, high + float(np.ptp(points.probe)), 300, dtype=np.float32)[:, None]
    return [points.probe, beside]


def fitted(points: Points) -> Any:
    """Compares what a call of train() on these points has returned and told."""

    def right(values: dict[str, Any], extra: Any, value: Any) -> None:
        found = mapping(value, keys=("losses", "kinds", "told", "predicted", "single", "among"))
        losses = numbers(found["losses"], length=values["epochs"])
        kinds = [string(kind) for kind in sequence(found["kinds"])]
        assert kinds == ["float"], f"the losses are of type {kinds}, not Python floats"
        told = [[epoch, loss] for epoch, loss in enumerate(losses)] if values["callback"] else []
        assert sequence(found["told"]) == told, "the callback was not told every epoch, from 0 on, with its loss"
        assert losses[-1] <= losses[0] / 10, f"the losses go from {losses[0]:.4g} to {losses[-1]:.4g}"
        predicted = [array(one, shape=points.truth.shape) for one in sequence(found["predicted"], length=4)]
        size = float(np.abs(points.truth).max()) + float(points.y.std())
        others = (array(found[name], shape=points.truth.shape) for name in ("single", "among"))
        for one in (*predicted[1:], *others):
            apart = float(np.abs(one - predicted[0]).max())
            assert apart <= 1e-4 * size, f"a prediction changes by {apart:.4g} with the mode or with its neighbours"
        assert_beyond(points, predicted[0])

    return right


def made_data(values: dict[str, Any], extra: Any, value: Any) -> None:
    """The points lie evenly from 0 to 1000, and off y = 2 x + 1 by the noise of their seed."""
    found = mapping(value, keys=("x", "y", "noise"))
    x, y, noise = (array(found[name], shape=(values["points"], 1)) for name in ("x", "y", "noise"))
    assert np.abs(x[:, 0] - np.linspace(0, 1000, values["points"])).max() < 0.01, "x is not even from 0 to 1000"
    off = float(np.abs(y - 2 * x - 1 - noise).max())
    assert off < 0.01, f"with points={values['points']}, seed={values['seed']} make_data is off by {off:.3g}"
