"""SmallCNN in numpy, for the judge's own process: no library, file or module of the agent's machine takes part.

Pictures are N x height x width x channels inside, so that a matrix product reads whole rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_BATCH = 250


def _convolved(pictures: Any, weight: Any, bias: Any) -> Any:
    """A 3 x 3 convolution with a border of zeros, then ReLU."""
    count, height, width, channels = pictures.shape
    padded = np.zeros((count, height + 2, width + 2, channels), np.float32)
    padded[:, 1:-1, 1:-1] = pictures
    patches = np.empty((count, height, width, 9, channels), np.float32)
    for place in range(9):
        down, right = divmod(place, 3)
        patches[:, :, :, place] = padded[:, down : down + height, right : right + width]
    kernel = weight.transpose(2, 3, 1, 0).reshape(9 * channels, -1)
    out = patches.reshape(-1, 9 * channels) @ kernel + bias
    return np.maximum(out, 0, out=out).reshape(count, height, width, -1)


def _pooled(pictures: Any) -> Any:
    """The largest of every 2 x 2 square."""
    rows = np.maximum(pictures[:, ::2], pictures[:, 1::2])
    return np.maximum(rows[:, :, ::2], rows[:, :, 1::2])


def named(weights: dict[str, Any], pictures: Any) -> Any:
    """The class that SmallCNN with these weights gives each picture (uint8, N x 3 x height x width), as int64."""
    # Weights of an agent may overflow: then no class wins fairly, and which one it is does not matter.
    return scores(weights, pictures).argmax(1)


def scores(weights: dict[str, Any], pictures: Any) -> Any:
    """What SmallCNN with these weights gives each class for each picture."""
    with np.errstate(all="ignore"):
        starts = range(0, len(pictures), _BATCH)
        return np.concatenate([_scores(weights, pictures[start : start + _BATCH]) for start in starts])


def _scores(weights: dict[str, Any], pictures: Any) -> Any:
    hidden = pictures.transpose(0, 2, 3, 1).astype(np.float32) / np.float32(127.5) - np.float32(1)
    for layer in ("conv1", "conv2", "conv3"):
        hidden = _pooled(_convolved(hidden, weights[f"{layer}.weight"], weights[f"{layer}.bias"]))
    hidden = _convolved(hidden, weights["conv4.weight"], weights["conv4.bias"]).mean(axis=(1, 2))
    return hidden @ weights["head.weight"].T + weights["head.bias"]
