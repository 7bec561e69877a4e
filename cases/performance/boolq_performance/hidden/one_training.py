"""Whether the weights after each epoch are those of one training, in which each epoch goes on from the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

STRAIGHT = 1 - 1e-5  # a cosine of one step and the next: for points of a line it is 1 but for rounding


def assert_goes_on(start: Mapping[str, Any], states: Sequence[Mapping[str, Any]]) -> None:
    """AssertionError where an epoch left weights that are nearer to earlier ones than to those of the epoch before.

    And where all lie on one line, as no training goes.

    start: the pretrained tensors, of which the distances are. Trainings by Adam and SGD, with constant and falling
    rates, decay and dropout came to 0.3 to 0.83 of the least distance from earlier weights (0.96 where one diverged),
    those that began anew to 1.2 to 4.7.
    """
    path = [np.concatenate([state[name].ravel() for name in start]).astype(np.float64) for state in (start, *states)]
    for epoch in range(2, len(path)):
        far = [float(np.linalg.norm(path[epoch] - before)) for before in path[:epoch]]
        nearest = int(np.argmin(far))
        there = f"epoch {nearest}" if nearest else "the pretrained model"
        assert far[-1] <= far[nearest], (
            f"the weights of epoch {epoch} are {far[-1]:.3g} from those of epoch {epoch - 1}, "
            f"and {far[nearest]:.3g} from those of {there}: it did not go on from the epoch before"
        )
    steps = [after - before for before, after in pairwise(path)]
    sizes = [max(float(np.linalg.norm(step)), 1e-12) for step in steps]
    turns = [float(a @ b) / (far * on) for (a, b), (far, on) in zip(pairwise(steps), pairwise(sizes), strict=True)]
    assert min(turns) <= STRAIGHT, "the weights of all epochs lie on one line: they were made up between two of them"
