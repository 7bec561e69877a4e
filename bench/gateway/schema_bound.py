"""How large schemas become once their references are replaced by what they name, as some providers need it.

Twenty definitions that each name the next one twice fill a kilobyte, and a million times as much when written out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MOST = 2_000_000
_NODE = 16
"""Of the bound, what a value takes beside its text."""
_DEFINING = ("$defs", "definitions", "schemas")


def can_be_written_out(values: Iterable[Any], most: int = _MOST) -> bool:
    """Whether all references in `values`, replaced, come to at most about `most` bytes.

    A definition is known by the last part of its name, wherever it stands, and is not replaced within itself.
    """
    roots = list(values)
    definitions = _definitions(roots)
    size = 0
    pending: list[tuple[Any, frozenset[str]]] = [(root, frozenset()) for root in roots]
    while pending:
        held, within = pending.pop()
        if within:
            size += _NODE + len(within) + (len(held) if isinstance(held, str) else 0)
            if size > most:
                return False
        if isinstance(held, list):
            pending.extend((item, within) for item in held)
        elif isinstance(held, dict):
            pending.extend((item, within) for item in held.values())
            name = _named(held)
            if name is not None and name not in within:
                pending.extend((target, within | {name}) for target in definitions.get(name, ()))
    return True


def _named(held: dict[str, Any]) -> str | None:
    reference = held.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else None


def _definitions(roots: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    pending = list(roots)
    while pending:
        held = pending.pop()
        if isinstance(held, list):
            pending.extend(held)
        elif isinstance(held, dict):
            pending.extend(held.values())
            for key in _DEFINING:
                if isinstance(held.get(key), dict):
                    for name, target in held[key].items():
                        found.setdefault(name, []).append(target)
    return found
