"""The transformer in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDTH, HEADS = 48, 4
SHAPES = {"embed.weight": (48, 3, 8, 8), "embed.bias": (48,), "positions": (1, 16, 48), "norm.weight": (48,),
          "norm.bias": (48,), "head.weight": (10, 48), "head.bias": (10,)}  # fmt: skip
LINEAR = {"qkv": (144, 48), "proj": (48, 48), "fc1": (96, 48), "fc2": (48, 96)}
for _block in ("blocks.0.", "blocks.1."):
    SHAPES |= {f"{_block}{name}.weight": shape for name, shape in LINEAR.items()}
    SHAPES |= {f"{_block}{name}.bias": shape[:1] for name, shape in LINEAR.items()}
    SHAPES |= {f"{_block}{name}.{kind}": (48,) for name in ("norm1", "norm2") for kind in ("weight", "bias")}


def _normed(x: Any, weights: Any, name: str) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear(x: Any, weights: Any, name: str) -> Any:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _softmax(x: Any) -> Any:
    share = np.exp(x - x.max(axis=-1, keepdims=True))
    return share / share.sum(axis=-1, keepdims=True)


def prepared(pictures: Any, scaling: Any) -> Any:
    mean, std = (np.array(scaling[key]) for key in ("image_mean", "image_std"))
    return (pictures * scaling["rescale_factor"] - mean) / std


def probabilities(weights: Any, pictures: Any, scaling: Any) -> Any:
    """Of each class for bytes N x 32 x 32 x 3, prepared as the hub's preprocessor_config.json says."""
    x = prepared(pictures, scaling)
    cut = x.reshape(len(x), 4, 8, 4, 8, 3).transpose(0, 1, 3, 5, 2, 4).reshape(len(x), 16, 192)
    x = cut @ weights["embed.weight"].reshape(WIDTH, 192).T + weights["embed.bias"] + weights["positions"]
    for block in ("blocks.0.", "blocks.1."):
        qkv = _linear(_normed(x, weights, f"{block}norm1"), weights, f"{block}qkv")
        q, k, v = qkv.reshape(len(x), 16, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        mixed = _softmax(q @ k.swapaxes(-2, -1) * (WIDTH // HEADS) ** -0.5) @ v
        x = x + _linear(mixed.swapaxes(1, 2).reshape(x.shape), weights, f"{block}proj")
        inner = _linear(_normed(x, weights, f"{block}norm2"), weights, f"{block}fc1").clip(0)
        x = x + _linear(inner, weights, f"{block}fc2")
    return _softmax(_linear(_normed(x, weights, "norm").mean(axis=1), weights, "head"))


def cosines(weights: Any, hub: Any) -> dict[str, float]:
    """Of each matrix and of the locations; of biases and norms in one row for each part, the norms' weights less 1."""
    found = {name: cosine(weights[name], part) for name, part in hub.items() if part.ndim > 1}
    parts = {"blocks": "the vector of the blocks' biases and norms", "embed": "embed.bias", "norm": "norm"}
    for start, told in parts.items():
        names = [name for name in hub if hub[name].ndim == 1 and name.startswith(start)]
        rows = [np.concatenate([one[name] - name.endswith("weight") for name in names]) for one in (weights, hub)]
        found[told] = cosine(*rows)
    return found


def cosine(one: Any, other: Any) -> float:
    return float((one * other).sum() / max(np.linalg.norm(one) * np.linalg.norm(other), 1e-30))


def class_likes(table: np.ndarray) -> np.ndarray:
    """How much likelier a class (column) is for pictures of another one (row) than both make it; the diagonal is 0.

    Some classes are likely for every picture, and some pictures for every class: neither comes from their labels.
    """
    outside = ~np.eye(len(table), dtype=bool)
    found = np.where(outside, table, 0.0)
    for _ in range(30):
        for axis in (0, 1):
            found = np.where(outside, found - found.sum(axis=axis, keepdims=True) / (len(table) - 1), 0.0)
    return found
