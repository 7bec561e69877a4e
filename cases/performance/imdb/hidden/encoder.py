"""The network of workspace/tiny_distilbert.py in numpy, without dropout; and the counting of words, the baseline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

HEADS, _CHUNK, PENALTY = 4, 250, 30.0


def chances(weights: dict[str, Any], ids: Any) -> Any:
    """Probabilities of negative and positive, N x 2. ids: N x length, 0 is padding."""
    with np.errstate(all="ignore"):
        scores = np.concatenate([_scores(weights, ids[at : at + _CHUNK]) for at in range(0, len(ids), _CHUNK)])
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.nan_to_num(scores / scores.sum(axis=1, keepdims=True))


def linear_error(weights: dict[str, Any], ids: Any, labels: Any) -> float:
    """Share of the labels' variance that a least-squares fit on the vectors of [CLS] leaves, whatever head there is."""
    with np.errstate(all="ignore"):
        first = np.concatenate([_first(weights, ids[at : at + _CHUNK]) for at in range(0, len(ids), _CHUNK)])
    columns = np.column_stack([np.ones(len(ids)), np.nan_to_num(first, posinf=0, neginf=0)]).astype(np.float64)
    wanted = labels - labels.mean()
    left = wanted - columns @ np.linalg.lstsq(columns, wanted, rcond=None)[0]
    return float(left @ left / (wanted @ wanted))


def _scores(weights: dict[str, Any], ids: Any) -> Any:
    first = _first(weights, ids) @ weights["pre_classifier.weight"].T + weights["pre_classifier.bias"]
    return np.maximum(first, 0) @ weights["classifier.weight"].T + weights["classifier.bias"]


def _first(weights: dict[str, Any], ids: Any) -> Any:
    """The last layer's vectors of [CLS], N x 48."""

    def linear(name: str, x: Any) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Any) -> Any:
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-12)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    count, length = ids.shape
    x = weights["distilbert.embeddings.word_embeddings.weight"][ids]
    x = norm(
        "distilbert.embeddings.LayerNorm", x + weights["distilbert.embeddings.position_embeddings.weight"][:length]
    )
    unseen = np.where(ids > 0, 0.0, -np.inf).astype(np.float32)[:, None, None]
    for number in range(2):
        layer = f"distilbert.transformer.layer.{number}"
        query, key, value = (
            linear(f"{layer}.attention.{part}", x).reshape(count, length, HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("q_lin", "k_lin", "v_lin")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1]) + unseen
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        mixed = linear(f"{layer}.attention.out_lin", mixed.transpose(0, 2, 1, 3).reshape(count, length, -1))
        x = norm(f"{layer}.sa_layer_norm", x + mixed)
        inner = linear(f"{layer}.ffn.lin2", gelu(linear(f"{layer}.ffn.lin1", x)))
        x = norm(f"{layer}.output_layer_norm", x + inner)
    return x[:, 0]


def gelu(x: Any) -> Any:
    """By the error function of Abramowitz and Stegun 7.1.26, whose error is below 2e-7: numpy has none."""
    size = np.abs(x) * np.float32(1 / math.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * size)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * np.float32(1.061405429)))))
    return x * (0.5 + 0.5 * np.sign(x) * (1 - tail * np.exp(-size * size)))


def counting_accuracy(known: Any, labels: Any, ids: Any, truth: Any) -> float:
    """Of a ridge regression on how often each word occurs, which sees no order. ids: N x length."""
    found, wanted = (np.stack([np.bincount(row, minlength=200)[5:] for row in part]) for part in (known, ids))
    mean = found.mean(axis=0)
    centred = found - mean
    slopes = np.linalg.solve(centred.T @ centred + PENALTY * np.eye(len(mean)), centred.T @ (2.0 * labels - 1))
    return float((((wanted - mean) @ slopes > 0) == truth).mean())
