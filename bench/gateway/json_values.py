"""JSON values: how deep they may be, and whether two are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from bench.base.files import sha256_bytes

Json = dict[str, Any]
DEEPEST = 60
_TOO_DEEP = "[nested too deeply]"
# A string is taken to its end even where that is missing: looked for again from within, it would take quadratic time.
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def read_shallow(text: str) -> Any:
    """The JSON value in `text` as far as it is `shallow`, however deep it is; raises `ValueError`."""
    try:
        return shallow(json.loads(text))
    except RecursionError:
        # A model can be brought to nest without end. What it used is told beside that, and not as deep.
        return json.loads("".join(_without_depths(text)))


def _without_depths(text: str) -> Iterator[str]:
    """`text` with a string in the place of every list and object that `shallow` would leave out."""
    depth, kept_to = 0, 0
    for found in _TOKEN.finditer(text):
        if found[0] in ("[", "{"):
            if depth == DEEPEST:
                yield text[kept_to : found.start()] + json.dumps(_TOO_DEEP)
            depth += 1
        elif found[0] in ("]", "}"):
            depth -= 1
            if depth == DEEPEST:
                kept_to = found.end()
    if depth <= DEEPEST:
        yield text[kept_to:]


def shallow(value: object, levels: int = DEEPEST) -> Any:
    """`value` without what lies deeper than `levels`, which nothing here could walk through or write."""
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        return _TOO_DEEP
    if isinstance(value, list):
        return [shallow(item, levels - 1) for item in value]
    return {key: shallow(item, levels - 1) for key, item in value.items()}


def objects_in(value: object) -> Iterator[Json]:
    """All objects of a JSON value, at whatever depth."""
    pending = [value]
    while pending:
        held = pending.pop()
        if isinstance(held, dict):
            yield held
            pending.extend(held.values())
        elif isinstance(held, list):
            pending.extend(held)


def digest_json(data: object) -> str:
    """One digest for equal JSON values, whatever their spacing and the order of their keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256_bytes(text.encode("ascii"))


def count_shared(earlier: list[Any], later: list[Any]) -> int:
    """How many items two conversations share, from the first."""
    shorter = min(len(earlier), len(later))
    return next((at for at in range(shorter) if earlier[at] != later[at]), shorter)
