"""ColourNet in numpy, for the judge's own process: what weights are worth is measured where no code of the agent runs.

Images are N x height x width x channels inside. The shapes are those of the starter's network.py with ten classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CLASSES = 10
EPSILON = 1e-5
# Prefix, channels in, channels out, kernel, stride; depthwise where the channels in are 1.
_STEM, _HEAD = ("features.0", 3, 16, 3, 2), ("features.4", 40, 96, 1, 1)
# Channels in, channels out, stride; each widens twofold.
_BLOCKS = {"features.1": (16, 24, 2), "features.2": (24, 24, 1), "features.3": (24, 40, 2)}

Weights = dict[str, Any]


def _norm(prefix: str, channels: int) -> dict[str, tuple[int, ...]]:
    names = ("weight", "bias", "running_mean", "running_var")
    return {**{f"{prefix}.{name}": (channels,) for name in names}, f"{prefix}.num_batches_tracked": ()}


def _layer(prefix: str, inside: int, outside: int, kernel: int) -> dict[str, tuple[int, ...]]:
    return {f"{prefix}.0.weight": (outside, inside, kernel, kernel), **_norm(f"{prefix}.1", outside)}


def shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the state dictionary."""
    found = _layer(*_STEM[:4])
    for prefix, (inside, outside, _) in _BLOCKS.items():
        wide = 2 * inside
        found |= _layer(f"{prefix}.layers.0", inside, wide, 1) | _layer(f"{prefix}.layers.1", 1, wide, 3)
        found[f"{prefix}.layers.2.weight"] = (outside, wide, 1, 1)
        found |= _norm(f"{prefix}.layers.3", outside)
    return {**found, **_layer(*_HEAD[:4]), "classifier.weight": (CLASSES, 96), "classifier.bias": (CLASSES,)}


def _convolved(images: Any, weight: Any, stride: int) -> Any:
    """A convolution with as much border as keeps the size at stride 1; each channel alone where the kernel has one."""
    kernel = weight.shape[-1]
    border = kernel // 2
    padded = np.pad(images, ((0, 0), (border, border), (border, border), (0, 0)))
    height, width = ((size - 1) // stride + 1 for size in images.shape[1:3])
    total: Any = 0.0
    for down in range(kernel):
        for right in range(kernel):
            rows = slice(down, down + (height - 1) * stride + 1, stride)
            columns = slice(right, right + (width - 1) * stride + 1, stride)
            part, tap = padded[:, rows, columns], weight[:, :, down, right]
            total = total + (part * tap[:, 0] if weight.shape[1] == 1 else part @ tap.T)
    return total


def _normed(images: Any, weights: Weights, prefix: str) -> Any:
    spread = np.sqrt(weights[f"{prefix}.running_var"] + EPSILON)
    centred = (images - weights[f"{prefix}.running_mean"]) / spread
    return centred * weights[f"{prefix}.weight"] + weights[f"{prefix}.bias"]


def _activated(images: Any, weights: Weights, prefix: str, stride: int = 1) -> Any:
    convolved = _convolved(images, weights[f"{prefix}.0.weight"], stride)
    return np.clip(_normed(convolved, weights, f"{prefix}.1"), 0, 6)


def logits(weights: Weights, images: Any) -> Any:
    """What ColourNet in evaluation gives images (N x 3 x height x width): N x 10, in float64."""
    # An agent's weights may overflow or have negative variances; the caller looks at what comes out.
    with np.errstate(all="ignore"):
        hidden = images.transpose(0, 2, 3, 1).astype(np.float64)
        hidden = _activated(hidden, weights, _STEM[0], _STEM[4])
        for prefix, (inside, outside, stride) in _BLOCKS.items():
            wide = _activated(hidden, weights, f"{prefix}.layers.0")
            wide = _activated(wide, weights, f"{prefix}.layers.1", stride)
            narrow = _convolved(wide, weights[f"{prefix}.layers.2.weight"], 1)
            narrow = _normed(narrow, weights, f"{prefix}.layers.3")
            hidden = hidden + narrow if stride == 1 and inside == outside else narrow
        pooled = _activated(hidden, weights, _HEAD[0]).mean(axis=(1, 2))
        return pooled @ weights["classifier.weight"].T + weights["classifier.bias"]
