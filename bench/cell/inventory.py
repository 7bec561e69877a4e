"""Which files a workspace held before and after the agent. Standard library only."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.base.files import sha256_file, walk_files, write_atomic

MAX_LISTED = 2000
_MAX_HASHED = 4 << 30
"""Bytes of one inventory; later files are listed without a digest."""
CHANGES = "changes.json"
"""Beside the inventory: the texts of the files that differ, from which pages draw a comparison."""
_LONGEST_TEXT = 64_000
_MOST_TEXT = 240_000
"""Bytes of all texts together, before and after."""


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
    names = sorted({name for kind in differences.values() for name in kind})
    if names:
        _keep_changes(names[:MAX_LISTED], start, finished, place.with_name(CHANGES))
    return bool(names)


def _keep_changes(names: list[str], start: Path, finished: Path, place: Path) -> None:
    """Write both texts of each file, small ones first, within bounds; what is left out is named with the reason.

    Only reads and writes: to compare two texts can take very long, and an agent chooses what they are.
    """
    files, left_out, room = [], [], _MOST_TEXT
    for name in sorted(names, key=lambda it: (_size(start / it) + _size(finished / it), it)):
        size = _size(start / name) + _size(finished / name)
        if size > min(room, 2 * _LONGEST_TEXT):
            left_out.append({"name": name, "why": f"{size} bytes: too large to be kept"})
            continue
        before, after = _text(start / name), _text(finished / name)
        if any(text == "" and _size(folder / name) for text, folder in ((before, start), (after, finished))):
            left_out.append({"name": name, "why": "is not text"})
            continue
        files.append({"name": name, "before": before, "after": after})
        room -= size
    document = {"schema": 1, "files": files, "left_out": left_out}
    write_atomic(place, json.dumps(document, indent=1).encode() + b"\n")


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _text(path: Path) -> str | None:
    """None where there is no such file; empty for what is not text."""
    if not path.is_file():
        return None
    try:
        text = path.read_bytes()[:_LONGEST_TEXT].decode("utf-8", "ignore" if _size(path) > _LONGEST_TEXT else "strict")
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in text else text


def _listed(files: dict[str, File]) -> dict[str, dict[str, object]]:
    return {name: asdict(files[name]) for name in list(files)[:MAX_LISTED]}
