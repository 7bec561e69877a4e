"""The judge's own model: its weights from a seed, and its logits in float64, as whole matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]
VOCABULARY, WIDTH, LAYERS, HEADS, INNER = 4096, 128, 4, 4, 344
BASE, EPSILON = 10000.0, 1e-5
TWINS = 4.5e-4  # of a largest logit of 5.5 to 9
SCALES = {
    "plain": {},
    # What is added under the root counts, gates go to where exp ends, and the first or the last token often wins.
    "small": {"embedding": 3e-3, "output": 1e-2, "down": 5e-5, "gate": 60.0},
    "sharp": {"query": 3.2, "key": 3.2, "layer3.down": 1e4},
    "huge": {"layer2.query": 64.0, "layer2.key": 64.0},
}
"""What a set of weights multiplies its parts with; sharp ones give attention scores up to about 118, and add thousands.

Huge ones give some far beyond 10,000: what is to be ignored must not win by them.
"""


def draw_weights(seed: int, kind: str = "plain") -> Weights:
    """Float32 weights of a kind of SCALES."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int, scale: float) -> NDArray[np.float32]:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    weights = {"embedding": normal(VOCABULARY, WIDTH, scale=1.0), "head": normal(WIDTH, VOCABULARY, scale=0.18)}
    weights["norm"] = 1 + normal(WIDTH, scale=0.1)
    for layer in range(LAYERS):
        name = f"layer{layer}"
        for part in ("query", "key", "value", "output"):
            weights[f"{name}.{part}"] = normal(WIDTH, WIDTH, scale=0.13)
        weights[f"{name}.gate"], weights[f"{name}.up"] = (normal(WIDTH, INNER, scale=0.1) for _ in range(2))
        weights[f"{name}.down"] = normal(INNER, WIDTH, scale=0.08)
        weights[f"{name}.norm1"], weights[f"{name}.norm2"] = (1 + normal(WIDTH, scale=0.1) for _ in range(2))
    for part, factor in SCALES[kind].items():
        for name in (name for name in weights if name.endswith(part)):
            weights[name] *= np.float32(factor)
    # Twins, whose logits are more apart than is allowed and less than half precision tells.
    apart = np.float32(TWINS) * rng.choice(np.array([-1, 1], np.float32), VOCABULARY // 2)
    weights["head"][:, 1::2] = weights["head"][:, ::2] * (1 + apart)
    if kind == "small":
        weights["head"][:, 0] *= 12
        weights["head"][:, -1] = -weights["head"][:, 0]
    return weights


def draw_tokens(rng: np.random.Generator, *shape: int) -> NDArray[np.int64]:
    """Tokens in the manner of a language: a few are frequent, most are rare."""
    return np.minimum(VOCABULARY * rng.random(shape) ** 3, VOCABULARY - 1).astype(np.int64)


def last_logits(tokens: NDArray[np.int64], weights: Weights) -> NDArray[np.float64]:
    """tokens[row, position] -> logits[row, vocabulary] of the token that comes next, in float64."""
    exact: Any = {name: part.astype(np.float64) for name, part in weights.items()}
    rows, length = tokens.shape
    half = WIDTH // HEADS // 2
    angles = np.arange(length)[:, None] * BASE ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    later = np.triu(np.full((length, length), -np.inf), 1)

    def split(x: Any) -> Any:
        return x.reshape(rows, length, HEADS, -1).transpose(0, 2, 1, 3)

    def turn(x: Any) -> Any:
        first, second = x[..., :half], x[..., half:]
        return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)

    x = exact["embedding"][tokens]
    for layer in range(LAYERS):
        name = f"layer{layer}"
        seen = _normalised(x, exact[f"{name}.norm1"])
        query, key, value = (split(seen @ exact[f"{name}.{part}"]) for part in ("query", "key", "value"))
        scores = turn(query) @ turn(key).transpose(0, 1, 3, 2) / np.sqrt(2 * half) + later
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        looked = (shares / shares.sum(axis=-1, keepdims=True)) @ value
        x = x + looked.transpose(0, 2, 1, 3).reshape(rows, length, WIDTH) @ exact[f"{name}.output"]
        seen = _normalised(x, exact[f"{name}.norm2"])
        gate = seen @ exact[f"{name}.gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (seen @ exact[f"{name}.up"])) @ exact[f"{name}.down"]
    logits: NDArray[np.float64] = _normalised(x[:, -1], exact["norm"]) @ exact["head"]
    return logits


def _normalised(x: Any, weight: Any) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * weight
