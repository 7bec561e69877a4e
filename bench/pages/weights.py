"""Which models have open weights, by name: the site's sources list families of names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

OPEN, OTHER = "open", "closed or unknown"
FILE = "open-weights.json"


@dataclass(frozen=True)
class OpenWeights:
    """Patterns of names in lower case; `closed` are exceptions to `open`."""

    open: Sequence[str] = ()
    closed: Sequence[str] = ()

    def of(self, model: str) -> str:
        """`open` or `closed or unknown`; empty without a model."""
        name = model.lower()
        if not name:
            return ""
        is_open = any(fnmatchcase(name, it) for it in self.open) and not any(
            fnmatchcase(name, it) for it in self.closed
        )
        return OPEN if is_open else OTHER


def read_open_weights(site: Path) -> OpenWeights:
    """Those of the site's sources; sources without the file know of none."""
    path = site / FILE
    if not path.is_file():
        return OpenWeights()
    found = json.loads(path.read_bytes())
    return OpenWeights(tuple(found["open"]), tuple(found["closed"]))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
