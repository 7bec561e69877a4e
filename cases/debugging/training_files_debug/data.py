"""Pictures of ten classes in CIFAR-10's binary layout: a tint of the class, with light and noise that tell nothing."""

from pathlib import Path

import numpy as np

from bench.casekit.data import stream
from bench.casekit.picture_files import write_cifar10


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """The judge trains on other pictures, in other tints: as many that both splits end with an incomplete batch,
    and that no fifth is whole."""
    for folder, name, counts in ((public, "public", (603, 50)), (hidden, "hidden", (667, 300))):
        rng = np.random.default_rng(stream(seed, name))
        tints = _tints(rng)
        train, test = ((paint(rng, tints, labels), labels) for labels in (rng.integers(0, 10, n) for n in counts))
        write_cifar10(folder / "data", train, test, [f"{name}_tint_{label}" for label in range(10)])


def _tints(rng: np.random.Generator) -> np.ndarray:
    """Ten colours that lie far from one another."""
    best, distance = np.zeros((10, 3)), 0.0
    for _ in range(300):
        tints = rng.uniform(50, 205, (10, 3))
        apart = np.linalg.norm(tints[:, None] - tints, axis=2) + 1e9 * np.eye(10)
        if apart.min() > distance:
            best, distance = tints, float(apart.min())
    return best


def paint(rng: np.random.Generator, tints: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """uint8, N x 32 x 32 x 3."""
    count = len(labels)
    across = np.linspace(-1, 1, 32)
    slope = rng.normal(0, 20, (count, 2, 1, 1))
    shade = slope[:, 0] * across[:, None] + slope[:, 1] * across
    light = rng.normal(0, 8, (count, 1, 1, 1))
    noise = rng.normal(0, 25, (count, 32, 32, 3))
    pixels = tints[labels][:, None, None] + shade[..., None] + light + noise
    return np.clip(pixels, 0, 255).astype(np.uint8)
