"""Where the results branch lives: in a repository of this machine, or behind a URL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.errors import UserError
from bench.store.git import Git, GitError, find_git_folder, init_bare
from bench.temporary import temporary_folder

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\\:]+@[^/\\:]+:|[A-Za-z0-9.-]{2,}:(?!\\)")
"""A URL, or the `host:path` of ssh."""
_BEATEN = re.compile(
    r"\[rejected\]|non-fast-forward|fetch first|cannot lock ref|failed to update ref|incorrect old value",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(r"permission denied|read-only file system", re.IGNORECASE)
_FLEETING = re.compile(
    r"could not resolve|connection (reset|refused|timed out)|timed out|early eof|rpc failed|hung up"
    r"|unexpected disconnect|error: (5\d\d|429)",
    re.IGNORECASE,
)


class Place(Protocol):
    """The branch, ready to be read and moved forward."""

    @property
    def git(self) -> Git: ...

    def tip(self) -> str | None:
        """The newest commit, with what is needed to build on it."""

    def advance(self, old: str | None, new: str) -> bool:
        """Move the branch from `old` to its child `new`; False when somebody else was quicker."""


@dataclass(frozen=True)
class LocalPlace:
    """A branch in a repository of this machine."""

    git: Git
    ref: str

    def tip(self) -> str | None:
        return self.git.commit_of(self.ref)

    def advance(self, old: str | None, new: str) -> bool:
        try:
            self.git.run("update-ref", self.ref, new, old or "0" * len(new))
        except GitError as error:
            if _was_beaten(error) or self.tip() != old:
                return False
            raise UserError(error.message, where=self.git.folder, remedy="may this user write there?") from None
        return True


@dataclass(frozen=True)
class RemotePlace:
    """A branch behind a URL, fetched one commit deep into a scratch repository."""

    git: Git
    ref: str
    url: str
    contents: bool
    """False: file contents are left out of the fetch where the other side can do that."""

    def tip(self) -> str | None:
        try:
            if not self._exists():
                return None
            filters = [] if self.contents else ["--filter=blob:none"]
            self.git.run("fetch", "--quiet", "--no-tags", "--depth=1", *filters, "origin", f"+{self.ref}:{self.ref}")
        except GitError as error:
            raise self._refused(error) from None
        return self.git.commit_of(self.ref)

    def advance(self, old: str | None, new: str) -> bool:
        del old  # a push without force only ever moves forward, and `new` is a child of `old`
        try:
            self.git.run("push", "--quiet", "origin", f"{new}:{self.ref}")
        except GitError as error:
            if _was_beaten(error) or _FLEETING.search(error.message):
                return False
            raise self._refused(error) from None
        return True

    def _exists(self) -> bool:
        lines = self.git.text("ls-remote", "origin", self.ref).splitlines()
        return any(line.split("\t")[-1] == self.ref for line in lines)

    def _refused(self, error: GitError) -> UserError:
        message, where = _without_secrets(error.message), _without_secrets(self.url)
        return UserError(message, where=where, remedy="check the address and the access")


def is_remote(repository: Path | str) -> bool:
    """Does this name another machine's repository? A path that exists never does."""
    return isinstance(repository, str) and not Path(repository).exists() and bool(_REMOTE.match(repository))


@contextmanager
def open_place(repository: Path | str, branch: str, *, contents: bool) -> Iterator[Place]:
    """The branch of a repository; `contents` says whether stored files will be read."""
    ref = f"refs/heads/{branch}"
    if not is_remote(repository):
        yield LocalPlace(Git(git_folder(Path(repository))), ref)
        return
    with temporary_folder("store") as scratch:
        folder = scratch / "scratch.git"
        init_bare(folder, branch)
        git = Git(folder, transfers=True)
        git.run("config", "remote.origin.url", str(repository))
        yield RemotePlace(git, ref, str(repository), contents)


def git_folder(path: Path) -> Path:
    """The git folder of a local repository."""
    folder = find_git_folder(path) if path.is_dir() else None
    if folder is None:
        raise UserError("is no git repository", where=path, remedy="name one, or a path where one can be made")
    return folder


def _was_beaten(error: GitError) -> bool:
    return bool(_BEATEN.search(error.message)) and not _FORBIDDEN.search(error.message)


def _without_secrets(text: str) -> str:
    return re.sub(r"://[^/@\s]+@", "://…@", text)
