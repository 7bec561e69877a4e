"""Which of many variants of a test are tried on every push; the others are the night's."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def at_night(*values: Any) -> ParameterSet:
    """The values of one variant that is tried only by `make test-nightly`."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def every_third(values: Iterable[Any]) -> list[Any]:
    """Every third is tried on a push, all of them at night."""
    return [value if number % 3 == 0 else at_night(value) for number, value in enumerate(values)]


def on_push(values: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """The chosen ones are tried on a push, all of them at night; each must be one of the values."""
    listed = list(values)
    assert set(chosen) <= set(listed), "a variant is chosen that does not exist"
    return [
        value if value in chosen else at_night(*value) if isinstance(value, tuple) else at_night(value)
        for value in listed
    ]
