"""The two steps of training, by numpy alone."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
# How often roundings are tried, of which size, and the largest share of a movement, or of a loss, that they may excuse.
DRAWS, ROUNDINGS, MOST = 12, 3e-6, 0.2


def loss_and_gradients(weights: Mapping[str, Float], pictures: Float, labels: Float) -> tuple[float, dict[str, Float]]:
    """Mean cross entropy of prepared pictures, N x 3 x 32 x 32, and its gradient for each weight."""
    count = len(pictures)
    patches = pictures.reshape(count, 3, 8, 4, 8, 4).transpose(0, 2, 4, 1, 3, 5).reshape(-1, 48)
    embed, mix = weights["embed.weight"].reshape(64, 48), weights["mix.weight"].reshape(128, 64)
    first = np.maximum(patches @ embed.T + weights["embed.bias"], 0)
    second = np.maximum(first @ mix.T + weights["mix.bias"], 0)
    pooled = second.reshape(count, 64, 128).mean(axis=1)
    third = np.maximum(pooled @ weights["hidden.weight"].T + weights["hidden.bias"], 0)
    scores = third @ weights["head.weight"].T + weights["head.bias"]
    scores = scores - scores.max(axis=1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    rows = np.arange(count)
    loss = float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[rows, labels]))
    back = chances.copy()
    back[rows, labels] -= 1
    back /= count
    found = {"head.weight": back.T @ third, "head.bias": back.sum(axis=0)}
    back = (back @ weights["head.weight"]) * (third > 0)
    found |= {"hidden.weight": back.T @ pooled, "hidden.bias": back.sum(axis=0)}
    back = np.repeat(back @ weights["hidden.weight"] / 64, 64, axis=0) * (second > 0)
    found |= {"mix.weight": back.T @ first, "mix.bias": back.sum(axis=0)}
    back = (back @ mix) * (first > 0)
    found |= {"embed.weight": back.T @ patches, "embed.bias": back.sum(axis=0)}
    return loss, {name: gradient.reshape(weights[name].shape) for name, gradient in found.items()}


def train(
    weights: Mapping[str, Float], batches: list[tuple[Float, Float]], rate: float
) -> tuple[dict[str, Float], float, float]:
    """Weights after one step a batch, and the first batch's loss before and after all steps."""
    now, before = dict(weights), loss_and_gradients(weights, *batches[0])[0]
    for pictures, labels in batches:
        _, gradients = loss_and_gradients(now, pictures, labels)
        now = {name: now[name] - rate * gradients[name] for name in now}
    return now, before, loss_and_gradients(now, *batches[0])[0]


def rounding(
    weights: Mapping[str, Float], batches: list[tuple[Float, Float]], rate: float, rng: np.random.Generator
) -> tuple[dict[str, float], float, float]:
    """How far float32 may lead from what train() gives: for the numbers of each tensor, and for both losses.

    A unit that is all but zero is active in one computation and not in another, and its share of the gradient comes
    or goes as a whole. Here weights and pictures are off by some roundings, so that such units fall either way.
    """
    wanted, *losses = train(weights, batches, rate)
    apart, losses_apart = dict.fromkeys(weights, 0.0), [0.0, 0.0]

    def near(part: Float) -> Float:
        return part * (1 + ROUNDINGS * rng.standard_normal(part.shape))

    for _ in range(DRAWS):
        start = {name: near(part) for name, part in weights.items()}
        found, *others = train(start, [(near(pictures), labels) for pictures, labels in batches], rate)
        for name, part in found.items():
            gap = (part - start[name]) - (wanted[name] - weights[name])
            apart[name] = max(apart[name], float(np.abs(gap).max()))
        losses_apart = [max(far, abs(one - two)) for far, one, two in zip(losses_apart, others, losses, strict=True)]
    # Never so much that another way of training would pass.
    moved = {name: float(np.abs(wanted[name] - part).max()) for name, part in weights.items()}
    first, last = (min(2 * far, MOST * loss) for far, loss in zip(losses_apart, losses, strict=True))
    return {name: min(2 * far, MOST * moved[name]) for name, far in apart.items()}, first, last
