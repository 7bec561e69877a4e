"""Which files a workspace held before and after the agent. Standard library only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.base.files import sha256_file, walk_files, write_atomic

MAX_LISTED = 2000
_MAX_HASHED = 4 << 30
"""Bytes of one inventory; later files are listed without a digest."""


@dataclass(frozen=True)
class File:
    """A regular file by content."""

    size: int
    digest: str
    executable: bool


def inventory(root: Path) -> dict[str, File]:
    """Every regular file below `root` by its relative path; caches of bytecode are left out."""
    found, left = {}, _MAX_HASHED
    for name, entry in walk_files(root):
        if entry.is_file(follow_symlinks=False):
            info = entry.stat(follow_symlinks=False)
            left -= info.st_size
            digest = sha256_file(Path(entry.path)) if left >= 0 else ""
            found[name] = File(info.st_size, digest, bool(info.st_mode & 0o100))
    return found


def keep_inventory(start: Path, finished: Path, place: Path, told: dict[str, list[str]]) -> bool:
    """Write both inventories and their difference to `place`; returns whether anything differs.

    The second one is of the snapshot: protected files are restored there already, so what was done to them is named
    under `tampered`. Of many files the first in order are listed and all are counted.
    """
    before, after = inventory(start), inventory(finished)
    differences = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in before and after[name] != before[name]],
    }
    counted = {"before": before, "after": after, **differences}
    document = {
        "schema": 1,
        "counts": {kind: len(names) for kind, names in counted.items()},
        **{kind: names[:MAX_LISTED] for kind, names in differences.items()},
        **told,
        "before": _listed(before),
        "after": _listed(after),
    }
    write_atomic(place, json.dumps(document, indent=1).encode() + b"\n")
    return any(differences.values())


def _listed(files: dict[str, File]) -> dict[str, dict[str, object]]:
    return {name: asdict(files[name]) for name in list(files)[:MAX_LISTED]}
