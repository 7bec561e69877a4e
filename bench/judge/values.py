"""Validators for whatever came from the agent: the value in the form asked for, or a failed check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

_SHOWN = 80


def shown(value: Any) -> str:
    """A short, safe rendering of a hostile value for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def number(value: Any, low: float | None = None, high: float | None = None) -> float:
    """A finite number, not a boolean, within [low, high]."""
    assert type(value) in (int, float), f"a number is needed, not {shown(value)}"
    try:
        result = float(value)
    except OverflowError:
        raise AssertionError("the number is too large") from None
    assert math.isfinite(result), f"a finite number is needed, not {result}"
    assert low is None or result >= low, f"{result:g} is below {low:g}"
    assert high is None or result <= high, f"{result:g} is above {high:g}"
    return result


def integer(value: Any, low: int | None = None, high: int | None = None) -> int:
    """A whole number, not a boolean, within [low, high]."""
    assert type(value) is int or (type(value) is float and value.is_integer()), (
        f"a whole number is needed, not {shown(value)}"
    )
    number(value, low, high)
    return int(value)


def string(value: Any) -> str:
    """A string."""
    assert type(value) is str, f"a string is needed, not {shown(value)}"
    return value


def sequence(value: Any, length: int | None = None) -> list[Any]:
    """A list, of `length` items."""
    assert type(value) is list, f"a list is needed, not {shown(value)}"
    assert length is None or len(value) == length, f"{length} items are needed, there are {len(value)}"
    return value


def numbers(value: Any, length: int | None = None) -> list[float]:
    """A list (or one-dimensional array) of finite numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [number(item) for item in sequence(value, length)]


def mapping(value: Any, keys: Sequence[str] | None = None) -> dict[str, Any]:
    """A dictionary that has at least `keys`."""
    assert type(value) is dict, f"an object is needed, not {shown(value)}"
    missing = [key for key in keys or () if key not in value]
    assert not missing, f"keys are missing: {', '.join(missing)}"
    return value


def array(value: Any, shape: Sequence[int | None] | None = None, finite: bool = True) -> NDArray[float64]:
    """A numeric array as float64; None in `shape` stands for any size."""
    import numpy

    assert isinstance(value, (numpy.ndarray, list, int, float)), f"an array is needed, not {shown(value)}"
    try:
        result = numpy.asarray(value)
        assert result.dtype.kind in "fiub", f"a numeric array is needed, not one of {result.dtype}"
        result = result.astype(numpy.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise AssertionError(f"a numeric array is needed: {error}") from None
    if shape is not None:
        fits = len(shape) == result.ndim and all(b is None or a == b for a, b in zip(result.shape, shape, strict=True))
        assert fits, f"shape {tuple(shape)} is needed, it is {result.shape}"
    assert not finite or bool(numpy.isfinite(result).all()), "the array has values that are not finite"
    return result
