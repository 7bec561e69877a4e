"""Small pictures in CIFAR's binary layout, soft enough that any interpolation turns them alike."""

from pathlib import Path

import numpy as np

from bench.casekit.data import stream
from bench.casekit.picture_files import write_cifar10
from bench.casekit.pictures import shapes

CLASSES = ["disc", "ring", "square", "frame", "triangle", "plus", "saltire", "stripes", "checks", "crescent"]
KERNEL = np.array([1, 4, 6, 4, 1]) / 16


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    rng = np.random.default_rng(stream(seed, "public"))
    train, test = (paint(rng, count) for count in (60, 12))
    write_cifar10(public / "data", train, test, CLASSES)


def paint(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Shapes over a ground of soft colours without symmetry. Mid-range, so that a jitter of 20 % hardly clips."""
    labels = rng.integers(0, 10, count)
    shape = shapes(rng, labels, difficulty=0.1) / 255
    ground = _blur(rng.standard_normal((count, 32, 32, 3)), 6)
    ground = 0.5 + 0.25 * ground / ground.std(axis=(1, 2), keepdims=True)
    mixed = _blur(0.5 * shape + 0.5 * np.clip(ground, 0, 1), 1)
    low, high = mixed.min(axis=(1, 2, 3), keepdims=True), mixed.max(axis=(1, 2, 3), keepdims=True)
    return np.round(50 + 140 * (mixed - low) / (high - low)).astype(np.uint8), labels


def _blur(pictures: np.ndarray, times: int) -> np.ndarray:
    for _ in range(times):
        for axis in (1, 2):
            padded = np.pad(pictures, [(2, 2) if place == axis else (0, 0) for place in range(4)], mode="reflect")
            windows = np.lib.stride_tricks.sliding_window_view(padded, 5, axis=axis)
            pictures = windows @ KERNEL
    return pictures
