"""Whether what was drawn comes as often as its chances say."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_shares(found: list[int], chances: Any, what: str) -> None:
    """Each of few outcomes comes as often as its chance says, within six standard deviations of a binomial count."""
    counts, chances = np.bincount(found, minlength=len(chances)), np.asarray(chances)
    apart = np.abs(counts - len(found) * chances) / np.sqrt(len(found) * chances * (1 - chances))
    assert apart.max() <= 6, f"{what}: {counts.tolist()} times, expected {np.round(len(found) * chances).tolist()}"


def assert_even(found: list[int], wide: int, what: str) -> None:
    """Numbers below `wide` come equally often: at most eight groups of neighbours are counted."""
    groups = min(wide, 8)
    sizes = np.bincount([n * groups // wide for n in range(wide)])
    assert_shares([n * groups // wide for n in found], sizes / wide, what)
