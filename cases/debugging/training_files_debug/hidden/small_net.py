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


def batches_of(rng: Any, sizes: tuple[int, ...], scale: float = 1) -> list[tuple[Any, Any]]:
    """Pictures of noise, with labels."""
    return [(rng.normal(0, scale, (size, 3, 32, 32)), rng.integers(0, 10, size)) for size in sizes]


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


def falling_gradients(rng: Any) -> list[Arrays]:
    """For 99 steps: large ones, then a fiftieth of them; their sizes go down to a millionth."""
    sizes = {name: 10 ** rng.uniform(-6, 0, shape) for name, shape in NAMES.items()}
    return [
        {name: size * rng.normal(0.02 if step else 1, 0.01, size.shape) for name, size in sizes.items()}
        for step in range(99)
    ]


class Adam:
    """Weights that take steps."""

    def __init__(self, rng: Any, rate: float) -> None:
        self.weights = {name: rng.normal(0, 0.3, shape) for name, shape in NAMES.items()}
        self.rate, self.steps = rate, 0
        self.first, self.second = dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 0.0)

    def descend(self, gradients: list[Arrays]) -> Arrays:
        """The weights after a step with each of the gradients."""
        for one in gradients:
            self.steps, self.weights = self.steps + 1, dict(self.weights)
            for name, gradient in one.items():
                self.first[name] = 0.9 * self.first[name] + 0.1 * gradient
                self.second[name] = 0.999 * self.second[name] + 0.001 * gradient**2
                root = np.sqrt(self.second[name] / (1 - 0.999**self.steps)) + 1e-8
                self.weights[name] = self.weights[name] - self.rate * self.first[name] / (1 - 0.9**self.steps) / root
        return self.weights

    def epoch(self, training: list[Any], validation: list[Any]) -> dict[str, float]:
        """What is logged of an epoch, after which the weights are those of its end."""
        losses = []
        for batch in training:
            losses.append(measured(self.weights, *batch)[0])
            self.descend([_gradients(self.weights, *batch)])
        loss, share = measured(self.weights, *map(np.concatenate, zip(*validation, strict=True)))
        mean = float(np.average(losses, weights=[len(labels) for _, labels in training]))
        return {"train_loss": mean, "val_loss": loss, "val_acc": share}
