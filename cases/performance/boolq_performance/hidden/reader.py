"""The network of workspace/tiny_bert.py in numpy: a BERT with a head for two answers, of any size, without dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_CHUNK = 250


def logits(weights: dict[str, Any], heads: int, ids: Any, passage: int) -> Any:
    """Scores of no and yes, N x 2. ids: N x length, all of them words; passage: the place where the passage begins."""
    with np.errstate(all="ignore"):
        parts = [_chunk(weights, heads, ids[at : at + _CHUNK], passage) for at in range(0, len(ids), _CHUNK)]
    return np.nan_to_num(np.concatenate(parts))


def _chunk(weights: dict[str, Any], heads: int, ids: Any, passage: int) -> Any:
    def linear(name: str, x: Any) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, x: Any) -> Any:
        x = x - x.mean(axis=-1, keepdims=True)
        return (
            x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-12) * weights[f"{name}.weight"]
            + weights[f"{name}.bias"]
        )

    count, length = ids.shape
    embedded = "bert.embeddings.{}_embeddings.weight".format
    x = weights[embedded("word")][ids] + weights[embedded("position")][:length]
    x = x + weights[embedded("token_type")][(np.arange(length) >= passage).astype(int)]
    x = norm("bert.embeddings.LayerNorm", x)
    for number in range(layers(weights)):
        layer = f"bert.encoder.layer.{number}"
        query, key, value = (
            linear(f"{layer}.attention.self.{part}", x).reshape(count, length, heads, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(query.shape[-1])
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        mixed = linear(f"{layer}.attention.output.dense", mixed.transpose(0, 2, 1, 3).reshape(count, length, -1))
        x = norm(f"{layer}.attention.output.LayerNorm", x + mixed)
        inner = linear(f"{layer}.output.dense", gelu(linear(f"{layer}.intermediate.dense", x)))
        x = norm(f"{layer}.output.LayerNorm", x + inner)
    return linear("classifier", np.tanh(linear("bert.pooler.dense", x[:, 0])))


def layers(weights: dict[str, Any]) -> int:
    return sum(name.endswith(".attention.self.query.weight") for name in weights)


def gelu(x: Any) -> Any:
    """By the error function of Abramowitz and Stegun 7.1.26, whose error is below 2e-7: numpy has none."""
    size = np.abs(x) * np.float32(1 / math.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * size)
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * np.float32(1.061405429)))))
    return x * (0.5 + 0.5 * np.sign(x) * (1 - tail * np.exp(-size * size)))


def mean_loss(scores: Any, answers: Any) -> float:
    """Mean cross entropy, in nats."""
    scores = scores - scores.max(axis=1, keepdims=True)
    return float((np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(answers)), answers]).mean())
