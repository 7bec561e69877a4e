"""The network of workspace/small_fcn.py in numpy, and intersections and unions of what it predicts."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPES: dict[str, tuple[int, ...]] = {
    "conv1.weight": (24, 3, 3, 3), "conv1.bias": (24,), "conv2.weight": (48, 24, 3, 3), "conv2.bias": (48,),
    "conv3.weight": (64, 48, 3, 3), "conv3.bias": (64,), "conv4.weight": (64, 64, 3, 3), "conv4.bias": (64,),
    "classifier.weight": (21, 64, 1, 1), "classifier.bias": (21,),
}  # fmt: skip
CLASSES, IGNORED, _CHUNK = 21, 255, 50


def segmented(weights: dict[str, Any], pictures: Any) -> Any:
    """The class of every pixel, uint8, N x side x side, of uint8 pictures N x 3 x side x side."""
    with np.errstate(all="ignore"):
        chunks = (pictures[at : at + _CHUNK] for at in range(0, len(pictures), _CHUNK))
        return np.concatenate([_scores(weights, part).argmax(axis=-1).astype(np.uint8) for part in chunks])


def shares(weights: dict[str, Any], pictures: Any) -> Any:
    """The softmax of the scores of every pixel of a few pictures, N x side x side x 21."""
    with np.errstate(all="ignore"):
        scores = np.clip(_scores(weights, pictures), -1e4, 1e4)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _scores(weights: dict[str, Any], pictures: Any) -> Any:
    x = (pictures.transpose(0, 2, 3, 1) / 127.5 - 1).astype(np.float32)
    for name in ("conv1", "conv2"):
        x = _convolved(x, weights, name, 1)
        x = np.maximum(x[:, ::2], x[:, 1::2])
        x = np.maximum(x[:, :, ::2], x[:, :, 1::2])
    x = _convolved(_convolved(x, weights, "conv3", 1), weights, "conv4", 2)
    scores = x @ weights["classifier.weight"].reshape(CLASSES, -1).T + weights["classifier.bias"]
    larger = _interpolation(scores.shape[1])
    scores = np.tensordot(larger, np.tensordot(larger, scores, (1, 1)), (1, 2))  # columns, rows, N, classes
    return np.nan_to_num(scores).transpose(2, 1, 0, 3)


def _convolved(x: Any, weights: dict[str, Any], name: str, step: int) -> Any:
    """A 3 x 3 convolution with a border of zeros, and ReLU."""
    weight = weights[f"{name}.weight"]
    count, side, _, channels = x.shape
    padded = np.zeros((count, side + 2 * step, side + 2 * step, channels), np.float32)
    padded[:, step:-step, step:-step] = x
    patches = np.empty((count, side, side, 9, channels), np.float32)
    for place in range(9):
        down, right = (step * part for part in divmod(place, 3))
        patches[:, :, :, place] = padded[:, down : down + side, right : right + side]
    out = patches.reshape(-1, 9 * channels) @ weight.transpose(2, 3, 1, 0).reshape(9 * channels, -1)
    return np.maximum(out + weights[f"{name}.bias"], 0).reshape(count, side, side, -1)


def _interpolation(side: int, times: int = 4) -> Any:
    """The matrix of a linear interpolation to `times` as many places, as torch does it without align_corners."""
    places = np.clip((np.arange(side * times) + 0.5) / times - 0.5, 0, side - 1)
    low = np.minimum(places.astype(int), side - 2)
    found = np.zeros((side * times, side), np.float32)
    rows = np.arange(side * times)
    found[rows, low], found[rows, low + 1] = 1 - (places - low), places - low
    return found


def overlaps(predicted: Any, masks: Any) -> Any:
    """Pixels of each class in both, in either, and in the mask: 3 x N x 21; those of the value 255 do not count."""
    counted = masks != IGNORED
    found = np.zeros((3, len(masks), CLASSES))
    for name in range(CLASSES):
        ours, theirs = (predicted == name) & counted, masks == name
        for row, pixels in enumerate((ours & theirs, ours | theirs, theirs)):
            found[row, :, name] = pixels.sum(axis=(1, 2))
    return found


def mean_iou(found: Any) -> float:
    """The mean over the classes that the masks have, each over the pixels of all pictures."""
    both, either, there = found.sum(axis=1)
    return float((both / np.maximum(either, 1))[there > 0].mean())
