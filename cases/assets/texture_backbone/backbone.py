"""A small convolutional network that was pretrained on pictures of 400 other textures; numpy alone.

Three 3 x 3 convolutions with a border of zeros (3-24-48-96 channels), each followed by ReLU, the first two also by
2 x 2 max pooling, and the mean over the picture at the end. `weights.safetensors` has them in PyTorch's shapes and
order, so that `torch.nn.Conv2d(..., padding=1)` takes them as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

SIDE, WIDTH = 16, 96
WEIGHTS = Path(__file__).with_name("weights.safetensors")


def load_backbone(path: Path = WEIGHTS) -> dict[str, Any]:
    """Read conv1, conv2 and conv3, each with .weight and .bias."""
    return dict(load_file(path))


def features(weights: dict[str, Any], pictures: Any, chunk: int = 250) -> Any:
    """N x 96 features of prepared pictures: N x 3 x 16 x 16, float32, `uint8 / 127.5 - 1`."""
    starts = range(0, len(pictures), chunk)
    return np.concatenate([_features(weights, pictures[at : at + chunk]) for at in starts]).astype(np.float32)


def _features(weights: dict[str, Any], pictures: Any) -> Any:
    x = np.ascontiguousarray(pictures.transpose(0, 2, 3, 1), dtype=np.float32)
    for name in ("conv1", "conv2"):
        x = _convolved(x, weights[f"{name}.weight"], weights[f"{name}.bias"])
        x = np.maximum(x[:, ::2], x[:, 1::2])
        x = np.maximum(x[:, :, ::2], x[:, :, 1::2])
    return _convolved(x, weights["conv3.weight"], weights["conv3.bias"]).mean(axis=(1, 2))


def _convolved(x: Any, weight: Any, bias: Any) -> Any:
    count, height, width, channels = x.shape
    padded = np.zeros((count, height + 2, width + 2, channels), np.float32)
    padded[:, 1:-1, 1:-1] = x
    patches = np.empty((count, height, width, 9, channels), np.float32)
    for place in range(9):
        down, right = divmod(place, 3)
        patches[:, :, :, place] = padded[:, down : down + height, right : right + width]
    out = patches.reshape(-1, 9 * channels) @ weight.transpose(2, 3, 1, 0).reshape(9 * channels, -1) + bias
    return np.maximum(out, 0, out=out).reshape(count, height, width, -1)
