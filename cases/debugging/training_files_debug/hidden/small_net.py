"""The classifier in numpy: logits, loss, gradients, and steps of Adam."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, Any]
SHAPES = {"embed": (24, 3, 4, 4), "mix": (48, 24, 1, 1), "head": (10, 48)}
NAMES = {f"{name}.{kind}": shape if kind == "weight" else shape[:1] for name, shape in SHAPES.items()
         for kind in ("weight", "bias")}  # fmt: skip
MEAN, STD = (np.array(values).reshape(3, 1, 1) for values in ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)))


def normalised(pictures: Any) -> Any:
    """Bytes N x 3 x 32 x 32 as the network sees them."""
    return (pictures / 255 - MEAN) / STD


def split(count: int) -> tuple[Any, Any]:
    """Rows for training and for validation."""
    order = np.random.default_rng(42).permutation(count)
    return order[int(0.2 * count) :], order[: int(0.2 * count)]


def _passed(weights: Arrays, x: Any) -> tuple[Any, ...]:
    cut = x.reshape(len(x), 3, 8, 4, 8, 4).transpose(0, 2, 4, 1, 3, 5).reshape(len(x), 64, 48)
    first = cut @ weights["embed.weight"].reshape(24, 48).T + weights["embed.bias"]
    second = first.clip(0) @ weights["mix.weight"].reshape(48, 24).T + weights["mix.bias"]
    mean = second.clip(0).mean(axis=1)
    return cut, first, second, mean, mean @ weights["head.weight"].T + weights["head.bias"]


def measured(weights: Arrays, x: Any, labels: Any) -> tuple[float, float]:
    """Mean cross entropy, and the share of right predictions."""
    logits = _passed(weights, x)[-1]
    logits = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(x)), labels]
    return float(losses.mean()), float((logits.argmax(axis=1) == labels).mean())


def _gradients(weights: Arrays, x: Any, labels: Any) -> Arrays:
    cut, first, second, mean, logits = _passed(weights, x)
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    up = share / share.sum(axis=1, keepdims=True)
    up[np.arange(len(x)), labels] -= 1
    up /= len(x)
    found = {"head.weight": up.T @ mean, "head.bias": up.sum(axis=0)}
    up = np.repeat((up @ weights["head.weight"] / 64)[:, None], 64, axis=1) * (second > 0)
    found |= {"mix.weight": np.einsum("npa,npb->ab", up, first.clip(0)), "mix.bias": up.sum(axis=(0, 1))}
    up = up @ weights["mix.weight"].reshape(48, 24) * (first > 0)
    found |= {"embed.weight": np.einsum("npa,npb->ab", up, cut), "embed.bias": up.sum(axis=(0, 1))}
    return {name: value.reshape(NAMES[name]) for name, value in found.items()}


def trained(weights: Arrays, batches: list[tuple[Any, Any]], rate: float) -> Arrays:
    """The weights after a step of Adam for each batch."""
    weights, first, second = dict(weights), dict.fromkeys(weights, 0.0), dict.fromkeys(weights, 0.0)
    for step, (x, labels) in enumerate(batches, 1):
        for name, gradient in _gradients(weights, x, labels).items():
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.999 * second[name] + 0.001 * gradient**2
            root = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
            weights[name] = weights[name] - rate * first[name] / (1 - 0.9**step) / root
    return weights
