"""What an agent changed: the workspace's files before and after, kept beside the record."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.files import sha256_file, walk_files, write_atomic
from bench.workspace import Snapshot

_MAX_LISTED = 2000


@dataclass(frozen=True)
class File:
    """A regular file by content."""

    size: int
    digest: str
    executable: bool


def inventory(root: Path) -> dict[str, File]:
    """Every regular file below `root` by its relative path; caches of bytecode are nobody's work and left out."""
    found = {}
    for name, entry in walk_files(root):
        if entry.is_file(follow_symlinks=False):
            info = entry.stat(follow_symlinks=False)
            found[name] = File(info.st_size, sha256_file(Path(entry.path)), bool(info.st_mode & 0o100))
    return found


def keep_inventory(start: Path, snapshot: Snapshot, place: Path) -> bool:
    """Write both inventories and their difference to `place`; returns whether anything differs.

    The second one is of the snapshot: protected files are restored there already, so what was done to them is named
    under `tampered`. Of many files the first in order are listed and all are counted.
    """
    before, after = inventory(start), inventory(snapshot.folder)
    added = [name for name in after if name not in before]
    removed = [name for name in before if name not in after]
    changed = [name for name in after if name in before and after[name] != before[name]]
    document = {
        "schema": 1,
        "counts": {
            "before": len(before),
            "after": len(after),
            "added": len(added),
            "removed": len(removed),
            "changed": len(changed),
        },
        "added": added[:_MAX_LISTED],
        "removed": removed[:_MAX_LISTED],
        "changed": changed[:_MAX_LISTED],
        "tampered": snapshot.tampered[:_MAX_LISTED],
        "dropped": snapshot.dropped,
        "links": snapshot.links,
        "before": _listed(before),
        "after": _listed(after),
    }
    write_atomic(place, json.dumps(document, indent=1).encode() + b"\n")
    return bool(added or removed or changed)


def _listed(files: dict[str, File]) -> dict[str, dict[str, object]]:
    return {name: asdict(files[name]) for name in list(files)[:_MAX_LISTED]}
