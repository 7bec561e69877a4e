"""The random numbers of resampling: always the same, so that the same records give the same figures."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

SEED = 20261121
DRAWS = 20_000
"""Of a Monte Carlo test: at p = 0.05 the error of the p-value is 0.0015."""
RESAMPLES = 10_000
"""Of a bootstrap."""
_BLOCK = 64


def signs(n: int, draws: int = DRAWS) -> Floats:
    """(draws, n) of -1 and 1, read-only."""
    return _sign_block(-(-n // _BLOCK) * _BLOCK, draws)[:, :n]


@lru_cache(maxsize=2)
def case_weights(n: int, resamples: int = RESAMPLES) -> Floats:
    """(resamples, n), read-only: the share of each of n cases in a sample of n cases drawn with replacement."""
    weights = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), size=resamples) / n
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=2)
def _sign_block(width: int, draws: int) -> Floats:
    coins = np.random.default_rng(SEED).integers(0, 2, size=(draws, width), dtype=np.int8)
    block: Floats = coins.astype(np.float64) * 2 - 1
    block.setflags(write=False)
    return block
