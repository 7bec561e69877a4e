"""JSON values: how deep they may be, and whether two are the same."""

from __future__ import annotations

import json
from typing import Any

from bench.base.files import sha256_bytes

Json = dict[str, Any]
DEEPEST = 60


def shallow(value: object, levels: int = DEEPEST) -> Any:
    """`value` without what lies deeper than `levels`, which nothing here could walk through or write."""
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return "[nested too deeply]"
    if isinstance(value, list):
        return [shallow(item, levels - 1) for item in value]
    return {key: shallow(item, levels - 1) for key, item in value.items()}


def digest_json(data: object) -> str:
    """One digest for equal JSON values, whatever their spacing and the order of their keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256_bytes(text.encode("ascii"))


def count_shared(earlier: list[Any], later: list[Any]) -> int:
    """How many items two conversations share, from the first."""
    shorter = min(len(earlier), len(later))
    return next((at for at in range(shorter) if earlier[at] != later[at]), shorter)
