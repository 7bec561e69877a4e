"""Adding files to a tree of git without a work tree, and without ever replacing one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from bench.errors import UserError
from bench.store.git import Entry, Git

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def add_files(git: Git, tree: str | None, files: Mapping[str, str], *, below: str = "") -> str:
    """The tree with the blobs of `files` (path to object id) added; a path taken by other content is a `UserError`."""
    entries = git.list_tree(tree) if tree else {}
    folders: dict[str, dict[str, str]] = defaultdict(dict)
    for path, sha in files.items():
        name, _, rest = path.partition("/")
        if not _PART.fullmatch(name):
            raise UserError(f"`{name}` cannot be a name on the results branch", where=below + path)
        if rest:
            folders[name][rest] = sha
        else:
            _put(entries, name, Entry("100644", "blob", sha), below)
    for name, inner in folders.items():
        held = entries.get(name)
        if held and held.kind != "tree":
            raise UserError("is a file where a folder is needed", where=below + name, remedy="mend the results branch")
        grown = add_files(git, held.sha if held else None, inner, below=f"{below}{name}/")
        entries[name] = Entry("040000", "tree", grown)
    return git.make_tree(entries)


def _put(entries: dict[str, Entry], name: str, entry: Entry, below: str) -> None:
    held = entries.setdefault(name, entry)
    if (held.kind, held.sha) != (entry.kind, entry.sha):
        raise UserError(
            "is on the results branch already, with other content",
            where=below + name,
            remedy="stored results are never rewritten; publish under another run or attempt",
        )
