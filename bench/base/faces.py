"""The face of a room: names that its `__init__` offers, each imported from its module when first asked for."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable


def lazy_face(room: str) -> Callable[[str], object]:
    """The `__getattr__` (PEP 562) of the package `room`.

    What it offers stands once, as imports in the `TYPE_CHECKING` block of its `__init__`: type checkers read them
    there, and so does this function when the first name is asked for, which takes half a millisecond.
    """

    @functools.cache
    def module_of() -> dict[str, str]:
        spec = importlib.util.find_spec(room)
        assert spec is not None and spec.origin is not None
        with open(spec.origin, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        (block,) = [node for node in tree.body if isinstance(node, ast.If)]
        imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
        return {alias.name: node.module or "" for node in imports for alias in node.names}

    def offered(name: str) -> object:
        if name not in module_of():
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module_of()[name]), name)
        # Asked for once: from now on it is an ordinary attribute.
        setattr(sys.modules[room], name, value)
        return value

    return offered
