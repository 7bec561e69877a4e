"""What the weights of a ColourNet are worth on digits: the judge has its own transform and its own network."""

from __future__ import annotations

from typing import Any

import numpy as np
from colour_net import logits, shapes

from bench.judge import array, mapping

SIDE, MEAN, STD = 32, 0.1307, 0.3081


def digits_of(ws: Any) -> dict[str, Any]:
    """The judge's file, in which all labels of validation images are wrong."""
    with np.load(ws.hidden("digits.npz"), allow_pickle=False) as arrays:
        return dict(arrays)


def validated(digits: dict[str, Any]) -> tuple[Any, Any]:
    """Images and labels."""
    return digits["val_images"], digits["val_labels"]


def unseen(ws: Any) -> tuple[Any, Any]:
    """Images that no training has met, and their true labels."""
    with np.load(ws.hidden("probe.npz"), allow_pickle=False) as arrays:
        return arrays["images"], arrays["labels"]


def _resize_matrix(before: int, after: int) -> Any:
    """Bilinear interpolation along one axis (pixel centres, edges repeated) as a matrix."""
    places = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, before - 1)
    matrix = np.zeros((after, before))
    np.add.at(matrix, (np.arange(after), low), 1 - (places - low))
    np.add.at(matrix, (np.arange(after), high), places - low)
    return matrix


def prepared(images: Any) -> Any:
    """The validation transform: (n, 3, 32, 32) float32."""
    matrix = _resize_matrix(images.shape[-1], SIDE)
    grey = (matrix @ (images / 255.0) @ matrix.T - MEAN) / STD
    return np.repeat(grey[:, None], 3, axis=1).astype(np.float32)


def weights_of(found: Any, what: str) -> dict[str, Any]:
    """The state of a ColourNet, known to have its names and shapes."""
    arrays, expected = mapping(found), shapes()
    odd = sorted(set(arrays) ^ set(expected))
    assert not odd, f"{what}: names that are missing or not of ColourNet: {odd[:4]}"
    return {name: _sized(arrays[name], shape, f"{what}: {name}") for name, shape in expected.items()}


def _sized(found: Any, shape: tuple[int, ...], what: str) -> Any:
    values = array(found)
    assert values.shape == shape, f"{what} has the shape {values.shape} instead of {shape}"
    return values


def losses(out: Any, labels: Any) -> Any:
    """Cross entropy of each image."""
    shifted = out - out.max(axis=1, keepdims=True)
    return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(out)), labels]


def measured(weights: dict[str, Any], digits: tuple[Any, Any]) -> tuple[float, float]:
    """Loss and accuracy in per cent of these weights in the judge's own network."""
    images, labels = digits
    out = np.clip(np.nan_to_num(logits(weights, prepared(images))), -1e6, 1e6)
    # Where classes are equal no class wins: else weights of zero would be right in a tenth of the cases.
    ordered = np.sort(out, axis=1)
    hits = (out.argmax(axis=1) == labels) & (ordered[:, -1] > ordered[:, -2])
    return float(losses(out, labels).mean()), 100 * float(hits.mean())
