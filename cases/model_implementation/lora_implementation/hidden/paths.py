"""Trains the agent's layer, and compares every parameter with where the judge's own descent leads."""

from __future__ import annotations

from typing import Any

import numpy as np
from descent import Descent, descended
from layers import KEYS, shapes_of

from bench.judge import array, mapping


def assert_path(
    ws: Any, sizes: dict[str, Any], arrays: dict[str, Any], data: tuple[Any, Any], moves: Descent, tolerance: float
) -> dict[str, Any]:
    """The parameters after training."""
    named = {name: key for name, key in KEYS.items() if key in shapes_of(sizes)}
    plan = (type(moves).__name__, moves.steps, moves.rate)
    found = mapping(ws.drive("driver.py:trained", sizes, arrays, *data, *plan), keys=list(named.values()))
    told = f"after {moves.steps} steps of {plan[0]}"
    assert sorted(found) == sorted(named.values()), f"{told} the parameters are {sorted(found)[:6]}"
    weight = array(found["linear.weight"], shape=arrays["weight"].shape)
    assert np.array_equal(weight, arrays["weight"]), f"{told} the base weight is not what it was"
    goal = descended(sizes, arrays, *data, moves)
    # Of all parameters together: one that ends near its start has still been far away, and gathered errors there.
    moved = max(float(np.abs(goal[name] - arrays[name]).max()) for name in named)
    for name, key in named.items():
        apart = float(np.abs(array(found[key], shape=goal[name].shape) - goal[name]).max())
        allowed = tolerance * moved + 2e-6 * float(np.abs(goal[name]).max())
        assert apart <= allowed, (
            f"{key} {told} is off the judge's own by {apart:.3g}, where training moves by {moved:.3g}"
        )
    return {name: array(found[key]) for name, key in named.items()}


def distance(sizes: dict[str, Any], arrays: dict[str, Any], change: Any) -> float:
    """Mean squared distance of what A and B have learned from the change, as a share of the change's own."""
    learned = sizes["alpha"] / sizes["rank"] * (arrays["b"] @ arrays["a"])
    return float(((learned - change) ** 2).mean() / (change**2).mean())
