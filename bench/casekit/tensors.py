"""Whether a checkpoint holds the tensors of a model, of which a driver in the sandbox shows shapes and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def unlike(state: Mapping[str, ArrayLike], shown: Mapping[str, Any]) -> list[str]:
    """Names of the tensors that a checkpoint and a model do not share, sorted; every number counts.

    state: arrays by name, as `read_checkpoint` gives them. shown: what a driver says of the model's `state_dict()`: by
    name a list of the shape and of the SHA-256 of the numbers as float32 in the order of rows, in hexadecimal digits. A
    model in float32 has the tensors of a checkpoint in float64.
    """
    return [
        name
        for name in sorted(state.keys() | shown.keys())
        if name not in state or name not in shown or not _shows(shown[name], state[name])
    ]


def _shows(found: object, part: ArrayLike) -> bool:
    """Compared as texts: what a driver says may be anything."""
    with np.errstate(over="ignore"):
        numbers = np.asarray(part).astype(np.float32)
    digest = hashlib.sha256(numbers.tobytes()).hexdigest()
    return isinstance(found, list) and [str(it) for it in found] == [str(list(numbers.shape)), digest]
