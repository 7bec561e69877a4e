"""What the notes of a training must have. `tiny_dino.py` takes them in the agent's process, so they are a claim."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.judge import array, mapping

NEAR = 1e-3  # of marks, whose parts are rounded to 4 places


def marks(pictures: Any) -> Any:
    """Two numbers of each prepared picture, N x 32 x 32 x 3, as the notes have them."""
    flat = pictures.transpose(0, 3, 1, 2).reshape(len(pictures), -1)
    waves = np.arange(flat.shape[1])
    return flat @ np.stack([np.cos(waves), np.sin(waves)], axis=1)


def sums(part: Any) -> Any:
    wide = np.asarray(part, float)
    return np.array([wide.sum(), np.square(wide).sum()])


def assert_weights(noted: Any, wanted: dict[str, Any], told: str) -> None:
    """The weights before a step are these; what the hub does not have, the head, is free."""
    found = mapping(noted)
    for name, pair in wanted.items():
        near = np.abs(array(found.get(name), shape=(2,)) - pair) <= 1e-3 + 1e-4 * np.abs(pair)
        assert near.all(), f"{told} with other weights than those before it: {name}"


def assert_batch(note: dict[str, Any], known: Any, labels: Any, told: str) -> Any:
    """The rows of the pictures of a batch, whose gradient is that of the mean cross entropy with these labels."""
    found = array(note.get("pictures"))
    assert found.ndim == 2 and found.shape[1] == 2 and len(found), f"{told}: pictures of a note are {found.shape}"
    apart = np.abs(found[:, None] - known).max(axis=2)
    rows = apart.argmin(axis=1)
    strange = apart[np.arange(len(rows)), rows] > NEAR
    assert not strange.any(), f"{told}: {strange.sum()} of {len(rows)} pictures of a batch are none of the training's"
    scores = array(note.get("scores"), shape=(len(rows), 10))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    wanted = (shares / shares.sum(axis=1, keepdims=True) - np.eye(10)[labels[rows]]) / len(rows)
    off = np.abs(array(note.get("gradient"), shape=scores.shape) - wanted).max(axis=1) > 1e-5
    told = f"{told}: {off.sum()} of {len(rows)} pictures of a batch"
    assert not off.any(), f"{told} have another gradient than the mean cross entropy with their labels gives"
    return rows


def assert_epoch(batches: list[Any], count: int, size: int, told: str) -> None:
    sizes = [len(rows) for rows in batches]
    assert all(it == size for it in sizes[:-1]), f"{told}: batches have {sorted(set(sizes[:-1]))} pictures"
    met = np.bincount(np.concatenate(batches), minlength=count)
    told = f"{told}: {(met == 0).sum()} of {count} training pictures are not met, and {(met > 1).sum()} more than once"
    assert (met == 1).all(), told
