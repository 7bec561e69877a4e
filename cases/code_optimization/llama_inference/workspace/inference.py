"""The next token of a small LLaMA, in plain loops, and how long that takes.

Run it with `python inference.py`. It prints the seconds of one batch and writes them to timing.txt.
"""

import time
from pathlib import Path

import numpy as np

VOCABULARY, WIDTH, LAYERS, HEADS, INNER = 4096, 128, 4, 4, 344
BASE, EPSILON = 10000.0, 1e-5
BATCH, CONTEXT = 4, 128

Weights = dict[str, np.ndarray]


def normalised(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Root mean square normalisation of the last axis."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * weight


def rotated(x: np.ndarray) -> np.ndarray:
    """x[position, numbers of a head]: the first half with the second, turned by angles of the position."""
    half = x.shape[1] // 2
    angles = np.arange(len(x))[:, None] * BASE ** (-np.arange(half) / half)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = x[:, :half], x[:, half:]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)


def attention(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    """x[position, width]: each position looks at itself and at those before it, in every head."""
    size = WIDTH // HEADS
    queries, keys, values = (x @ weights[f"{name}.{part}"] for part in ("query", "key", "value"))
    output = np.zeros_like(x)
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        query, key = rotated(queries[:, part]), rotated(keys[:, part])
        for at in range(len(x)):
            scores = key[: at + 1] @ query[at] / np.sqrt(size)
            scores = np.exp(scores - scores.max())
            output[at, part] = scores / scores.sum() @ values[: at + 1, part]
    return output @ weights[f"{name}.output"]


def feed_forward(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    """The gated linear unit of LLaMA."""
    gate = x @ weights[f"{name}.gate"]
    gate = gate * (1 / (1 + np.exp(-gate)))
    return (gate * (x @ weights[f"{name}.up"])) @ weights[f"{name}.down"]


def forward(tokens: np.ndarray, weights: Weights) -> np.ndarray:
    """tokens[position] -> logits[position, vocabulary]."""
    x = weights["embedding"][tokens]
    for layer in range(LAYERS):
        name = f"layer{layer}"
        x = x + attention(normalised(x, weights[f"{name}.norm1"]), weights, name)
        x = x + feed_forward(normalised(x, weights[f"{name}.norm2"]), weights, name)
    return normalised(x, weights["norm"]) @ weights["head"]


def generate(tokens: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """tokens[row, position] -> the token that comes next in each row, and logits[row, vocabulary] for it."""
    logits = np.stack([forward(row, weights)[-1] for row in tokens])
    return logits.argmax(axis=-1), logits.astype(np.float32)


def main() -> None:
    with np.load("model/weights.npz") as file:
        weights = {name: file[name] for name in file.files}
    tokens = np.load("data/eval_tokens.npy")[:BATCH]
    start = time.perf_counter()
    following, _ = generate(tokens, weights)
    seconds = time.perf_counter() - start
    print(f"tokens {following.tolist()}, {seconds:.4f} seconds for {BATCH} rows of {CONTEXT}")
    Path("timing.txt").write_text(f"{seconds:.6f}\n")


if __name__ == "__main__":
    main()
