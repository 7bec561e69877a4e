"""What the service keeps of a number, which task.md tells."""

from typing import Any

DECIMALS = 12


def kept(values: dict[str, Any]) -> dict[str, Any]:
    """A row or a summary as it is read back; a metric's least or mean lies in an object under its name."""
    return {key: _inner(it) if isinstance(it, dict) else _short(it) for key, it in values.items()}


def _inner(values: dict[str, Any]) -> dict[str, Any]:
    return {key: _short(it) for key, it in values.items()}


def _short(value: Any) -> Any:
    return round(value, DECIMALS) if isinstance(value, float) else value
