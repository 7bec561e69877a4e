"""The classifier in numpy, and the weights and inputs that judge and driver both draw from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np

SIDE = 224
FEATURES = 32 * (SIDE // 2) ** 2


def shapes(classes: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the state dictionary."""
    return {
        "features.0.weight": (16, 3, 3, 3),
        "features.0.bias": (16,),
        "features.2.weight": (32, 16, 3, 3),
        "features.2.bias": (32,),
        "classifier.weight": (classes, FEATURES),
        "classifier.bias": (classes,),
    }


def drawn(seed: int, classes: int, count: int) -> dict[str, Any]:
    """A value for each parameter and for the input `x`, float64: numbers stay near one from layer to layer."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in {**shapes(classes), "x": (count, 3, SIDE, SIDE)}.items():
        spread = 1.1 if len(shape) == 1 or name == "x" else (2 / np.prod(shape[1:])) ** 0.5
        found[name] = spread * rng.standard_normal(shape, dtype=np.float32).astype(np.float64)
    return found


def _convolved(x: Any, weight: Any, bias: Any) -> Any:
    """3 x 3, stride 1, padding 1, then ReLU; N x height x width x channels."""
    height, width = x.shape[1:3]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    total: Any = bias
    for down in range(3):
        for right in range(3):
            total = total + padded[:, down : down + height, right : right + width] @ weight[:, :, down, right].T
    return np.maximum(total, 0)


def output(values: dict[str, Any]) -> Any:
    """Logits of the input `x`."""
    hidden = values["x"].transpose(0, 2, 3, 1)
    for name in ("features.0", "features.2"):
        hidden = _convolved(hidden, values[f"{name}.weight"], values[f"{name}.bias"])
    count, height, width, channels = hidden.shape
    pooled = hidden.reshape(count, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))
    flat = pooled.transpose(0, 3, 1, 2).reshape(count, -1)
    return flat @ values["classifier.weight"].T + values["classifier.bias"]


def slope(values: dict[str, Any], start: Any, direction: dict[str, Any], name: str, upstream: Any) -> float:
    """Derivative of sum(upstream * logits), `start` at `values`, where `name` moves along its direction."""
    # So small that hardly ever one of two million values crosses a kink on the way; rounding leaves 1e-5.
    step = 1e-9
    end = output({**values, name: values[name] + step * direction[name]})
    return float(((end - start) * upstream).sum() / step)
