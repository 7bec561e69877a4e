"""What the index needs beyond the rest of the program."""

from __future__ import annotations

from importlib.util import find_spec

from bench.errors import UserError

_NEEDED = ("duckdb", "msgspec", "pandas", "pyarrow")


def is_available() -> bool:
    """Is everything installed that the index is made and asked with?"""
    return all(find_spec(name) is not None for name in _NEEDED)


def require() -> None:
    """Raises `UserError` where something is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(f"needs {', '.join(missing)}", where="the index", remedy="pip install 'ml-dev-bench[index]'")
