"""What a case needs of the environment it is judged in."""

from __future__ import annotations

import functools
import importlib.util


@functools.lru_cache(maxsize=256)
def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def missing_modules(modules: list[str]) -> list[str]:
    """Those of `modules` that cannot be imported here; looks without importing."""
    return [module for module in modules if not _is_there(module)]
