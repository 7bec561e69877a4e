"""The back end of a results branch, for those who write to it: its tip, trees and blobs, and how to move it forward."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.base.errors import UserError
from bench.store.git import Entry, find_git_folder
from bench.store.git.objects import object_id, render_tree

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\\:]+@[^/\\:]+:|[A-Za-z0-9.-]{2,}:(?!\\)")
"""A URL, or the `host:path` of ssh."""
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class TryAgain(Exception):
    """Another writer was faster, or the server did not answer: the same call may succeed later."""


@dataclass(frozen=True)
class Tip:
    """A commit of the branch."""

    commit: str
    tree: str
    parents: tuple[str, ...]
    message: str


class BranchBackend(Protocol):
    """A branch that can be moved forward; no method reads more of it than it is asked for.

    Every method may raise `TryAgain`, or `UserError` where trying again cannot help.
    """

    def tip(self) -> Tip | None:
        """The newest commit; None: there is no such branch yet."""

    def ancestor(self, commit: str) -> Tip:
        """A commit that the branch holds."""

    def trees(self, ids: Sequence[str]) -> dict[str, dict[str, Entry]]:
        """The direct entries of each tree by name."""

    def blob(self, sha: str) -> bytes:
        """The content of a blob."""

    def blob_id(self, content: bytes) -> str:
        """The object id that a blob of this content has."""

    def build(self, tip: Tip | None, files: Mapping[str, bytes], message: str) -> str:
        """A commit on `tip` with these files laid over its own; the branch itself is not moved."""

    def advance(self, tip: Tip | None, commit: str) -> None:
        """Move the branch from `tip` to its child `commit`, never by force."""


def is_remote(repository: Path | str) -> bool:
    """Is this the address of a repository on another machine? A path that exists never is."""
    return isinstance(repository, str) and not Path(repository).exists() and bool(_REMOTE.match(repository))


def git_folder(path: Path) -> Path:
    """The git folder of a local repository."""
    folder = find_git_folder(path) if path.is_dir() else None
    if folder is None:
        raise UserError("is not a git repository", where=path, remedy="name one, or a path where one can be made")
    return folder


def edited_by_hand(what: str, where: str) -> UserError:
    """The error for a branch that this program alone would not have left like this."""
    return UserError(what, where=where, remedy="the results branch was changed by hand; restore its last good commit")


def without_secrets(text: str) -> str:
    """`text` with the credentials of any address left out."""
    return re.sub(r"://[^/@\s]+@", "://…@", text)


def find(backend: BranchBackend, tip: Tip | None, paths: Iterable[str]) -> dict[str, Entry]:
    """The entries that exist at `paths`: one batch of trees for each level of folders, however large the tree is.

    Raises `UserError` where a file is in the place of a folder.
    """
    found: dict[str, Entry] = {}
    level = {tip.tree: {"": sorted(set(paths))}} if tip else {}
    while level:
        listings = backend.trees(list(level))
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
                        raise edited_by_hand("is a file where a folder is needed", f"{prefix}{name}")
                    else:
                        below.setdefault(entry.sha, {}).setdefault(f"{prefix}{name}/", []).append(deeper)
        level = dict(below)
    return found


def walk(backend: BranchBackend, tree: str, prefix: str) -> dict[str, Entry]:
    """Every file below a tree by its path: the cost grows with the tree."""
    files: dict[str, Entry] = {}
    pending = [(prefix, tree)]
    while pending:
        listings = backend.trees([sha for _, sha in pending])
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
    """Raises `UserError` for a path that may not be on the results branch."""
    for name in path.split("/"):
        if not _PART.fullmatch(name):
            raise UserError(f"`{name}` cannot be a name on the results branch", where=path)


@dataclass(frozen=True)
class Grown:
    """A tree with files laid over it: its id, and the content of every tree that is new."""

    id: str
    new: dict[str, bytes]


def add_files(
    backend: BranchBackend, tree: str | None, files: Mapping[str, str], format_: str, *, below: str = ""
) -> Grown:
    """The tree with the blobs of `files` (path to object id) laid over it; only the touched folders are read."""
    entries = dict(backend.trees([tree])[tree]) if tree else {}
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
            raise edited_by_hand("is a file where a folder is needed", below + name)
        grown = add_files(backend, held.sha if held else None, inner, format_, below=f"{below}{name}/")
        entries[name] = Entry("40000", "tree", grown.id)
        new |= grown.new
    content = render_tree(entries)
    whole = object_id("tree", content, format_)
    return Grown(whole, {**new, whole: content})
