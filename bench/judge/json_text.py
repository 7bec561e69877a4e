"""JSON of an agent, read strictly: a text is one document with one meaning, or none."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

# Python's own limit of recursion, which `repr` and comparisons meet, is ten times as deep.
_DEEPEST = 100


def strict_json(text: str, deepest: int = _DEEPEST, whole: Callable[[str], int | float] | None = None) -> Any:
    """The value of a document; ValueError or RecursionError where it is none.

    Refused are NaN, infinity, a key twice in one object, and what is nested more than `deepest` levels deep, which a
    check could not even show in a message. whole: what makes a number of digits alone.
    """
    found = json.loads(
        text, parse_constant=_no_constant, object_pairs_hook=_without_duplicates, parse_float=finite, parse_int=whole
    )
    level = [found] if isinstance(found, dict | list) else []
    for _ in range(deepest):
        inner = [part.values() if isinstance(part, dict) else part for part in level]
        level = [part for parts in inner for part in parts if isinstance(part, dict | list)]
        if not level:
            return found
    raise ValueError(f"nested more than {deepest} levels deep")


def finite(text: str) -> float:
    """The number that a text is; ValueError where it is too large."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
