"""The face of a room: names that its `__init__` offers, each imported from its module when first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_face(room: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` (PEP 562) of the package `room`.

    names: per module of the room, its offered names in one string. Type checkers read the same names from the
    `TYPE_CHECKING` block of the package; a test holds the two together.
    """
    module_of = {name: f"{room}.{module}" for module, offered in names.items() for name in offered.split()}

    def offered(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module_of[name]), name)
        # Asked for once: from now on it is an ordinary attribute.
        setattr(sys.modules[room], name, value)
        return value

    return offered
