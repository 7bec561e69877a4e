"""Where the results branch lives, as those who write to it see it: a tip, trees, blobs, and one way forward."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.errors import UserError
from bench.store.git import Entry, find_git_folder

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\\:]+@[^/\\:]+:|[A-Za-z0-9.-]{2,}:(?!\\)")
"""A URL, or the `host:path` of ssh."""


class TryAgain(Exception):
    """Somebody else was quicker, or the other side did not answer: the same again may well succeed."""


@dataclass(frozen=True)
class Tip:
    """A commit of the branch."""

    commit: str
    tree: str
    parents: tuple[str, ...]
    message: str


class Place(Protocol):
    """The branch, ready to be moved forward; nothing here reads more than it is asked for.

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
    """Does this name another machine's repository? A path that exists never does."""
    return isinstance(repository, str) and not Path(repository).exists() and bool(_REMOTE.match(repository))


def git_folder(path: Path) -> Path:
    """The git folder of a local repository."""
    folder = find_git_folder(path) if path.is_dir() else None
    if folder is None:
        raise UserError("is no git repository", where=path, remedy="name one, or a path where one can be made")
    return folder


def without_secrets(text: str) -> str:
    """`text` with the credentials of any address left out."""
    return re.sub(r"://[^/@\s]+@", "://…@", text)
