"""The baseline: a logistic regression on how many atoms of each kind a molecule has, as the judge fits it."""

from __future__ import annotations

import numpy as np
from molecules import ATOMS, Molecules
from numpy.typing import NDArray


def baseline(made: Molecules, known: int) -> NDArray[np.float64]:
    """Scores of all molecules, learnt from the first `known` ones."""
    molecule = np.repeat(np.arange(len(made.acts)), made.atom_counts)
    counts = np.zeros((len(made.acts), ATOMS))
    np.add.at(counts, (molecule, made.atoms[:, 0]), 1)
    rows = np.column_stack([np.ones(len(counts)), counts - counts[:known].mean(axis=0)])
    weights = np.zeros(rows.shape[1])
    for _ in range(25):  # Newton's steps
        chance = 1 / (1 + np.exp(-np.clip(rows[:known] @ weights, -30, 30)))
        slope = rows[:known].T @ (chance - made.acts[:known]) + weights
        bend = rows[:known].T @ (rows[:known] * (chance * (1 - chance))[:, None]) + np.eye(len(weights))
        weights -= np.linalg.solve(bend, slope)
    return np.asarray(rows @ weights)
