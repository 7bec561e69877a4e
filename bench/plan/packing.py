"""Jobs in bins so that the fullest one ends early: longest first, then MULTIFIT."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

# Each round halves the gap between the bound and the packing: after 12 it is below a thousandth of it.
_ROUNDS = 12
_MULTIFIT_JOBS = 2000
"""Beyond so many jobs the first rule is within a thousandth of the bound, and the second one only costs time."""


def pack(seconds: Sequence[float], bins: int) -> list[list[int]]:
    """Indices of the jobs for each of `bins` machines; the same input gives the same packing. Empty bins stay empty."""
    if bins < 1:
        raise ValueError("at least one machine is needed")
    order = sorted(range(len(seconds)), key=lambda index: (-seconds[index], index))
    packed = _longest_first(seconds, order, bins)
    if len(seconds) > _MULTIFIT_JOBS:
        return packed
    longest = makespan(seconds, packed)
    low = lower_bound(seconds, bins)
    for _ in range(_ROUNDS):
        if longest <= low * (1 + 1e-9):
            break
        middle = (low + longest) / 2
        tried = _first_fit(seconds, order, bins, middle)
        if tried is None:
            low = middle
        else:
            packed, longest = tried, makespan(seconds, tried)
    return packed


def makespan(seconds: Sequence[float], packed: Sequence[Sequence[int]]) -> float:
    """Seconds until the last machine is done."""
    return max((sum(seconds[index] for index in group) for group in packed), default=0.0)


def lower_bound(seconds: Sequence[float], bins: int) -> float:
    """No packing ends earlier: the mean load, the longest job, and two of the `bins` + 1 longest share a machine."""
    ordered = sorted(seconds, reverse=True)
    bounds = [sum(ordered) / bins, ordered[0] if ordered else 0.0]
    if len(ordered) > bins:
        bounds.append(ordered[bins - 1] + ordered[bins])
    return max(bounds)


def _longest_first(seconds: Sequence[float], order: Sequence[int], bins: int) -> list[list[int]]:
    packed: list[list[int]] = [[] for _ in range(bins)]
    loads = [(0.0, number) for number in range(bins)]
    for index in order:
        load, number = loads[0]
        packed[number].append(index)
        heapq.heapreplace(loads, (load + seconds[index], number))
    return packed


def _first_fit(seconds: Sequence[float], order: Sequence[int], bins: int, capacity: float) -> list[list[int]] | None:
    """Each job, longest first, to the first machine where it ends in time; None when one fits nowhere."""
    packed: list[list[int]] = [[] for _ in range(bins)]
    loads = [0.0] * bins
    for index in order:
        for number in range(bins):
            if loads[number] + seconds[index] <= capacity * (1 + 1e-12):
                packed[number].append(index)
                loads[number] += seconds[index]
                break
        else:
            return None
    return packed
