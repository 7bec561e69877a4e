"""Digits, and a weak classifier of them: distances to the means of six examples a class."""

import json
from pathlib import Path

import numpy as np

from bench.casekit.data import stream, write_npz
from bench.casekit.picture_files import png, write_idx
from bench.casekit.pictures import digits

COUNT, EXAMPLES, NOISE, KEPT, LEAST_GAP = 500, 6, 0.2, 5, 0.001
FOURTH_DIGIT = 2.5e-5
"""The mean of the confidences is further than this from its rounding to four digits."""


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Redrawn until the most confident mistakes are clearly apart, so that rounding decides nothing.

    A mean to four digits shows, and a mean of confidences to four digits is still right. Among all ten digits, and by
    any other notion of confidence, other mistakes come first.
    """
    for attempt in range(1000):
        rng = np.random.default_rng(stream(seed, f"public {attempt}"))
        weight, bias = classifier(rng)
        labels = rng.integers(0, 10, COUNT)
        pictures = digits(rng, labels, noise=NOISE)
        chances = probabilities(pictures, weight, bias)
        found = mistakes(chances, labels)
        confidences = np.array([confidence for confidence, *_ in found[: KEPT + 1]])
        if len(found) <= 2 * KEPT or float(-np.diff(confidences).max()) < LEAST_GAP:
            continue
        if [row for _, row, *_ in found[:KEPT]] in misread(chances, labels):
            continue
        mean = confidences[:KEPT].mean()
        if abs(mean - mean.round(4)) > FOURTH_DIGIT and abs(mean - confidences[:KEPT].round(4).mean()) < 1.5e-5:
            break
    write_npz(public / "classifier.npz", weight=weight, bias=bias)
    write_idx(public / "data" / "MNIST" / "raw", "t10k", pictures, labels.astype(np.uint8))
    folder = public / "data" / "png"
    folder.mkdir(parents=True)
    for row, picture in enumerate(pictures):
        (folder / f"{row:05}.png").write_bytes(png(picture))
    (hidden / "mistakes.json").write_text(json.dumps(found[:KEPT]))


def classifier(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias of the softmax of -40 times the mean squared distance, more or less."""
    names = np.repeat(np.arange(10), EXAMPLES)
    examples = digits(rng, names, noise=NOISE).reshape(-1, 784) / 255
    means = np.stack([examples[names == digit].mean(axis=0) for digit in range(10)])
    return means / 2, -(means**2).sum(axis=1) / 4


def probabilities(pictures: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """What classifier.py makes of the pictures."""
    scores = pictures.reshape(len(pictures), -1) / 255 @ weight.T + bias
    chances: np.ndarray = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    return chances


def mistakes(chances: np.ndarray, labels: np.ndarray) -> list[list[float]]:
    """(confidence, row, predicted, true) of wrong predictions among the zeros and ones, the most confident first."""
    predicted = chances.argmax(axis=1)
    wrong = np.flatnonzero((labels < 2) & (predicted != labels))
    found = [[float(chances[row].max()), int(row), int(predicted[row]), int(labels[row])] for row in wrong]
    return sorted(found, reverse=True)


def misread(chances: np.ndarray, labels: np.ndarray) -> list[list[int]]:
    """The rows that come first among all ten digits, and by three other notions of confidence."""
    ranked, rows = np.sort(chances, axis=1), np.arange(len(labels))
    wrong, asked = chances.argmax(axis=1) != labels, labels < 2
    leads = [
        ranked[:, -1] - chances[rows, labels],  # over the true digit
        ranked[:, -1] - ranked[:, -2],  # over the next digit
        (chances * np.log(chances)).sum(axis=1),  # little entropy
    ]
    by = [(wrong, ranked[:, -1])] + [(wrong & asked, lead) for lead in leads]
    return [sorted(np.flatnonzero(among).tolist(), key=lambda row: -measure[row])[:KEPT] for among, measure in by]
