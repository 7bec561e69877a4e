"""Paths in git's trees: finding some without reading the rest, and adding files without ever replacing one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.errors import UserError
from bench.store.git import Entry
from bench.store.objects import object_id, render_tree

if TYPE_CHECKING:
    from bench.store.place import Place

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def find(place: Place, tree: str | None, paths: Iterable[str]) -> dict[str, Entry]:
    """What lies at each of `paths`, where something does: one batch of trees a level, whatever the tree's size.

    Raises `UserError` where a file stands in the way of a folder.
    """
    found: dict[str, Entry] = {}
    level = {tree: {"": sorted(set(paths))}} if tree else {}
    while level:
        listings = place.trees(list(level))
        below: dict[str, dict[str, list[str]]] = {}
        for sha, groups in level.items():
            for prefix, rests in groups.items():
                for rest in rests:
                    name, _, deeper = rest.partition("/")
                    entry = listings[sha].get(name)
                    if entry is None:
                        continue
                    if not deeper:
                        found[f"{prefix}{rest}"] = entry
                    elif entry.kind != "tree":
                        raise _in_the_way(f"{prefix}{name}")
                    else:
                        below.setdefault(entry.sha, {}).setdefault(f"{prefix}{name}/", []).append(deeper)
        level = dict(below)
    return found


def walk(place: Place, tree: str, prefix: str) -> dict[str, Entry]:
    """Every file below a tree by its path: as dear as the tree is large."""
    files: dict[str, Entry] = {}
    pending = [(prefix, tree)]
    while pending:
        listings = place.trees([sha for _, sha in pending])
        deeper = []
        for path, sha in pending:
            for name, entry in listings[sha].items():
                if entry.kind == "tree":
                    deeper.append((f"{path}{name}/", entry.sha))
                else:
                    files[f"{path}{name}"] = entry
        pending = deeper
    return files


def check_path(path: str) -> None:
    """Raises `UserError` for a path that has no business on the results branch."""
    for name in path.split("/"):
        if not _PART.fullmatch(name):
            raise UserError(f"`{name}` cannot be a name on the results branch", where=path)


@dataclass(frozen=True)
class Grown:
    """A tree with files laid over it: its id, and the content of every tree that is new."""

    id: str
    new: dict[str, bytes]


def add_files(place: Place, tree: str | None, files: Mapping[str, str], format_: str, *, below: str = "") -> Grown:
    """The tree with the blobs of `files` (path to object id) laid over it; only the touched folders are read."""
    entries = dict(place.trees([tree])[tree]) if tree else {}
    folders: dict[str, dict[str, str]] = defaultdict(dict)
    new: dict[str, bytes] = {}
    for path, sha in files.items():
        name, _, rest = path.partition("/")
        if rest:
            folders[name][rest] = sha
        else:
            entries[name] = Entry("100644", "blob", sha)
    for name, inner in folders.items():
        held = entries.get(name)
        if held and held.kind != "tree":
            raise _in_the_way(below + name)
        grown = add_files(place, held.sha if held else None, inner, format_, below=f"{below}{name}/")
        entries[name] = Entry("40000", "tree", grown.id)
        new |= grown.new
    content = render_tree(entries)
    whole = object_id("tree", content, format_)
    return Grown(whole, {**new, whole: content})


def _in_the_way(path: str) -> UserError:
    return UserError("is a file where a folder is needed", where=path, remedy="mend the results branch")
