"""The evaluator of MLAgentBench's identify-contrails, faults included: for reading old logs, never for a verdict."""

import csv
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

BASELINE = None
HIGHER_IS_BETTER = True
SMOOTHING = 1e-6


def evaluate(submission: Path, answers: Path | None, rng: Random) -> float:
    """The mean of each picture's Dice, and not the Dice of all pixels: nothing drawn on a clear sky counts 1.

    answers: a folder for each record with `human_pixel_masks.npy`, else `answers.npz` of this case.
    """
    assert answers is not None, "the masks of the test scenes are needed"
    with (submission / "submission.csv").open(encoding="utf-8", newline="") as file:
        given = {row["record_id"]: row["encoded_pixels"] for row in csv.DictReader(file)}
    found = [_dice(_decoded(given[name], mask.shape), mask) for name, mask in _known(answers)]
    return float(np.mean(found))


def _decoded(text: str, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Starts and lengths of runs, from 1, column by column; `-` is empty."""
    flat = np.zeros(shape[0] * shape[1], dtype=bool)
    numbers = [] if text.strip() in ("-", "") else [int(it) for it in text.split()]
    for start, length in zip(numbers[::2], numbers[1::2], strict=True):
        flat[start - 1 : start - 1 + length] = True
    return flat.reshape(shape, order="F")


def _dice(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    return float((2 * (one & other).sum() + SMOOTHING) / (one.sum() + other.sum() + SMOOTHING))


def _known(answers: Path) -> list[tuple[str, NDArray[np.bool_]]]:
    if (answers / "answers.npz").is_file():
        with np.load(answers / "answers.npz") as file:
            pairs = [(str(name), mask) for name, mask in zip(file["ids"], file["masks"], strict=True)]
    else:
        folders = sorted(path.parent for path in answers.glob("*/human_pixel_masks.npy"))
        pairs = [(it.name, np.load(it / "human_pixel_masks.npy")) for it in folders]
    return [(name, np.asarray(mask).reshape(mask.shape[:2]) > 0) for name, mask in pairs]
