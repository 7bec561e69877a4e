"""The next token of a small LLaMA, all rows and heads at once, and how long that takes.

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


def angles(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine for each position, for both halves of a head."""
    half = WIDTH // HEADS // 2
    turns = np.arange(length)[:, None] * BASE ** (-np.arange(half) / half)
    return np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)


def rotated(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """x[row, head, position, numbers]: the first half with the second, turned by angles of the position."""
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


def heads(x: np.ndarray) -> np.ndarray:
    """x[row, position, width] -> [row, head, position, numbers]"""
    return x.reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)


def attention(seen: np.ndarray, asking: np.ndarray, weights: Weights, name: str, turns: tuple) -> np.ndarray:
    """The last positions, `asking`, look at those of `seen` until themselves, in all rows and heads at once."""
    (rows, length, _), count = seen.shape, asking.shape[1]
    cos, sin = turns
    query = rotated(heads(asking @ weights[f"{name}.query"]), cos[-count:], sin[-count:])
    key = rotated(heads(seen @ weights[f"{name}.key"]), cos, sin)
    scores = query @ key.transpose(0, 1, 3, 2) * np.float32((WIDTH // HEADS) ** -0.5)
    if count > 1:
        scores += np.triu(np.full((count, length), -np.inf, dtype=np.float32), length - count + 1)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    looked = (scores @ heads(seen @ weights[f"{name}.value"])) / scores.sum(axis=-1, keepdims=True)
    return looked.transpose(0, 2, 1, 3).reshape(rows, count, WIDTH) @ weights[f"{name}.output"]


def feed_forward(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    """The gated linear unit of LLaMA."""
    gate = x @ weights[f"{name}.gate"]
    gate /= 1 + np.exp(-gate)
    return (gate * (x @ weights[f"{name}.up"])) @ weights[f"{name}.down"]


def generate(tokens: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    """tokens[row, position] -> the token that comes next in each row, and logits[row, vocabulary] for it."""
    x = weights["embedding"][tokens]
    turns = angles(tokens.shape[1])
    for layer in range(LAYERS):
        name = f"layer{layer}"
        seen = normalised(x, weights[f"{name}.norm1"])
        if layer == LAYERS - 1:
            # Only the last position is asked for what comes next; the others are done when it has looked at them.
            x = x[:, -1:]
        x = x + attention(seen, seen[:, -x.shape[1] :], weights, name, turns)
        x = x + feed_forward(normalised(x, weights[f"{name}.norm2"]), weights, name)
    logits = normalised(x[:, 0], weights["norm"]) @ weights["head"]
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
