"""Comparison of what the agent computed with what is right, within tolerances that the check states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from bench.judge.values import array

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import ArrayLike, NDArray


def close(
    actual: Any,
    expected: ArrayLike,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    *,
    nan: Literal["refuse", "equal"] = "refuse",
    what: str = "the result",
) -> NDArray[float64]:
    """`actual`, which is untrusted, as a float64 array whose every element is close to that of `expected`.

    An element is close when |actual - expected| <= atol + rtol * |expected|, as in numpy.isclose; atol is in the units
    of the values. First the shapes must be equal: nothing is broadcast. nan: with `refuse`, every element must be
    finite; with `equal`, NaN must be where `expected` has it, and infinities must be equal. AssertionError names the
    element that is furthest off in tolerances, its index, both values, and how many are off. ValueError for an
    `expected` with a value that is not finite where `nan` is `refuse`, or for a negative tolerance: an error of the
    case.
    """
    import numpy

    right = numpy.asarray(expected, dtype=numpy.float64)
    if min(rtol, atol) < 0 or not math.isfinite(rtol + atol):
        raise ValueError("tolerances are finite and not negative")
    if nan == "refuse" and not numpy.isfinite(right).all():
        raise ValueError("the expected values must be finite, or say nan='equal'")
    found = array(actual, finite=False)
    assert found.shape == right.shape, f"{what} has the shape {found.shape}, expected {right.shape}"
    with numpy.errstate(all="ignore"):
        gap, allowed = numpy.abs(found - right), atol + rtol * numpy.abs(right)
        ratio = numpy.where(gap <= allowed, 0.0, numpy.where(allowed > 0, gap / allowed, numpy.inf))
    usual = numpy.isfinite(found) & numpy.isfinite(right)
    same = (found == right) | (numpy.isnan(found) & numpy.isnan(right))
    ratio = numpy.where(usual, ratio, numpy.where(same, 0.0, numpy.inf))
    off = int((ratio > 0).sum())
    if off:
        place = tuple(int(axis) for axis in numpy.unravel_index(int(ratio.argmax()), ratio.shape))
        where = f" at {list(place)}" if place else ""
        raise AssertionError(
            f"{what}: {off:,} of {ratio.size:,} values differ by more than {atol:g} + {rtol:g} * |expected|; "
            f"the worst{where} is {found[place]:.9g}, expected {right[place]:.9g}"
        )
    return found
