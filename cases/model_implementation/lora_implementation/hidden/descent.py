"""The path of gradient descent on the parameters of a layer with a low-rank adapter, worked out in float64."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def dense(sizes: Arrays, arrays: Arrays) -> Any:
    """W + (alpha / rank) B A."""
    wide = {name: value.astype(np.float64) for name, value in arrays.items()}
    return wide["weight"] + sizes["alpha"] / sizes["rank"] * (wide["b"] @ wide["a"])


def output(sizes: Arrays, arrays: Arrays, x: Any) -> Any:
    """What the layer with these parameters gives for x."""
    out = x.astype(np.float64) @ dense(sizes, arrays).T
    return out + arrays["bias"] if "bias" in arrays else out


@dataclass
class Descent:
    """Plain gradient descent; a call gives what a step takes off a parameter."""

    steps: int
    rate: float

    def __call__(self, name: str, slope: Any) -> Any:
        return self.rate * slope


@dataclass
class Adam(Descent):
    """Adam as PyTorch has it, with its default settings."""

    seen: dict[str, tuple[int, Any, Any]] = field(default_factory=dict)

    def __call__(self, name: str, slope: Any) -> Any:
        count, first, second = self.seen.get(name, (0, 0.0, 0.0))
        count, first, second = count + 1, 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        self.seen[name] = count, first, second
        return self.rate * first / (1 - 0.9**count) / (np.sqrt(second / (1 - 0.999**count)) + 1e-8)


def descended(sizes: Arrays, arrays: Arrays, x: Any, y: Any, moves: Descent) -> Arrays:
    """The parameters after all steps on the mean squared error of x and y, with W frozen."""
    now = {name: value.astype(np.float64) for name, value in arrays.items()}
    scale, wide = sizes["alpha"] / sizes["rank"], x.astype(np.float64)
    for _ in range(moves.steps):
        up = output(sizes, now, x) - y
        up *= 2 / up.size
        slopes = {"a": scale * now["b"].T @ up.T @ wide, "b": scale * up.T @ wide @ now["a"].T, "bias": up.sum(axis=0)}
        for name in slopes.keys() & now.keys():
            now[name] = now[name] - moves(name, slopes[name])
    return now
