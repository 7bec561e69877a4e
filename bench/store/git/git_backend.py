"""The results branch through git itself: in a repository of this machine, or behind a URL."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from bench.base.errors import UserError
from bench.base.files import temporary_folder
from bench.store.git import Entry, Git, GitError, init_bare
from bench.store.git.backend import BranchBackend, Tip, TryAgain, add_files, git_folder, is_remote, without_secrets
from bench.store.git.objects import ObjectReader, object_id, packed_ids, parse_tree

_BEATEN = re.compile(
    r"\[rejected\]|non-fast-forward|fetch first|cannot lock ref|failed to update ref|incorrect old value"
    r"|(hook|update) declined|remote rejected|unpacker error|file exists",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(
    r"permission denied|read-only file system|protected branch|GH0\d\d:|rule violations|not allowed", re.IGNORECASE
)
"""GitHub numbers its refusals: GH006 is a protected branch, GH013 a rule of the repository."""
_FLEETING = re.compile(
    r"could not resolve|couldn't connect|connection (reset|refused|timed out)|timed out|early eof|rpc failed|hung up"
    r"|unexpected disconnect|error: (5\d\d|429)",
    re.IGNORECASE,
)
_NO_BRANCH = re.compile(r"couldn't find remote ref", re.IGNORECASE)
_BY_NAME_ONLY = re.compile(r"unadvertised object|not our ref", re.IGNORECASE)
_SILENT = ("-c", "fetch.negotiationAlgorithm=noop")
"""Without haves: from a commit that is here, the server would conclude that its trees are here too."""
_FILTERING = "git -c uploadpack.allowFilter=true upload-pack"
"""What answers a fetch from a repository of this machine: it may leave things out, whatever its settings say."""


class GitBackend(BranchBackend):
    """What both ways through git have in common: objects, each read and written once."""

    def __init__(self, git: Git, ref: str) -> None:
        self.git = git
        self.ref = ref
        self.reader = ObjectReader(git)
        self._known: dict[str, dict[str, Entry]] = {}
        self._written: set[str] = set()

    @cached_property
    def format(self) -> str:
        """The object format of the repository: sha1 or sha256."""
        return self.git.text("rev-parse", "--show-object-format")

    def ancestor(self, commit: str) -> Tip:
        return read_commit(self.reader, commit)

    def trees(self, ids: Sequence[str]) -> dict[str, dict[str, Entry]]:
        wanted = [sha for sha in dict.fromkeys(ids) if sha not in self._known]
        self._get(wanted)
        self._known.update({sha: parse_tree(self.reader.read(sha, "tree"), self.format) for sha in wanted})
        return {sha: self._known[sha] for sha in ids}

    def blob(self, sha: str) -> bytes:
        self._get([sha])
        return self.reader.read(sha, "blob")

    def blob_id(self, content: bytes) -> str:
        return object_id("blob", content, self.format)

    def build(self, tip: Tip | None, files: Mapping[str, bytes], message: str) -> str:
        blobs = {path: self.blob_id(content) for path, content in files.items()}
        self._write("blob", {blobs[path]: content for path, content in files.items()})
        grown = add_files(self, tip.tree if tip else None, blobs, self.format)
        self._write("tree", grown.new)
        return self.git.make_commit(grown.id, tip.commit if tip else None, message)

    def _get(self, ids: Sequence[str]) -> None:
        """Fetch those of the objects that are not here; in a repository of this machine, all are."""

    def _write(self, kind: str, contents: Mapping[str, bytes]) -> None:
        new = {sha: content for sha, content in contents.items() if sha not in self._written}
        written = self.git.store(kind, list(new.values())) if new else []
        # With other ids, the trees that name these objects would point nowhere.
        if written != list(new):
            raise GitError("hash-object", "wrote other objects than it was given")
        self._written.update(new)


class LocalGitBackend(GitBackend):
    """A branch in a repository of this machine."""

    def tip(self) -> Tip | None:
        commit = self.git.commit_of(self.ref)
        return read_commit(self.reader, commit) if commit else None

    def advance(self, tip: Tip | None, commit: str) -> None:
        old = tip.commit if tip else None
        try:
            # All zeros: git moves the reference only if it does not exist yet.
            self.git.run("update-ref", self.ref, commit, old or "0" * len(commit))
        except GitError as error:
            if _is_temporary(error) or self.git.commit_of(self.ref) != old:
                raise TryAgain(error.message) from None
            raise UserError(error.message, where=self.git.folder, remedy="check your access to it") from None


class RemoteGitBackend(GitBackend):
    """A branch behind a URL. Only what a change touches is ever fetched, so history and size do not matter.

    The scratch repository holds the newest commit without its trees (`--depth=1 --filter=tree:0`); trees on the way
    to a touched path are fetched by their ids, all of one level at once. They are never read before that: git would
    fetch a missing tree together with everything below it. After a lost race, one fetch brings what is new.
    """

    def __init__(self, git: Git, ref: str, url: str) -> None:
        super().__init__(git, ref)
        self.url = url
        self._whole = False
        """The server cannot filter a fetch, or gives out no object by its id: everything was fetched."""
        self._present: set[str] = set()
        self._packs: set[Path] = set()

    def tip(self) -> Tip | None:
        # With haves, what is new since the last try comes at once; it is little, and nothing is deduced from it.
        how = ("--filter=blob:none",) if self.git.commit_of(self.ref) else (*_SILENT, "--filter=tree:0")
        try:
            said = self._fetch("--depth=1", f"+{self.ref}:{self.ref}", how=how)
            self._whole = self._whole or "filtering not recognized" in said
        except GitError as error:
            if _NO_BRANCH.search(error.message):
                return None
            raise self._fault(error) from None
        commit = self.git.commit_of(self.ref)
        return read_commit(self.reader, commit) if commit else None

    def ancestor(self, commit: str) -> Tip:
        try:
            self._fetch("--no-write-fetch-head", "--depth=1", commit)
        except GitError as error:
            raise self._fault(error) from None
        return super().ancestor(commit)

    def advance(self, tip: Tip | None, commit: str) -> None:
        del tip  # a push without force only moves forward, and `commit` is a child of `tip`
        try:
            self.git.run("push", "--quiet", "origin", f"{commit}:{self.ref}")
        except GitError as error:
            if _is_temporary(error):
                raise TryAgain(without_secrets(error.message)) from None
            raise self._fault(error) from None

    def _get(self, ids: Sequence[str]) -> None:
        missing = [] if self._whole else [sha for sha in ids if not self._is_here(sha)]
        if not missing:
            return
        try:
            self._fetch("--no-write-fetch-head", *missing)
        except GitError as error:
            if not _BY_NAME_ONLY.search(error.message):
                raise self._fault(error) from None
            self._whole = True
            self.tip()

    def _is_here(self, sha: str) -> bool:
        """Whether a fetch brought this object; git itself would answer by fetching it."""
        packs = set((self.git.folder / "objects" / "pack").glob("*.idx")) - self._packs
        for pack in packs:
            self._present.update(packed_ids(pack))
        self._packs |= packs
        return sha in self._present or sha in self._written

    def _fetch(self, *arguments: str, how: Sequence[str] = (*_SILENT, "--filter=tree:0")) -> str:
        if self._whole:
            how = (*_SILENT, "--no-filter", "--refetch")
        settings = [part for part in how if not part.startswith("--")]
        options = [part for part in (*how, *arguments) if part.startswith("--")]
        wanted = [part for part in arguments if not part.startswith("--")]
        return self.git.notes(*settings, "fetch", "--quiet", "--no-tags", *options, "origin", *wanted)

    def _fault(self, error: GitError) -> TryAgain | UserError:
        message, where = without_secrets(error.message), without_secrets(self.url)
        if _FLEETING.search(error.message):
            return TryAgain(f"{where}: {message}")
        return UserError(message, where=where, remedy="check the address and the access")


@contextmanager
def open_backend(repository: Path | str, branch: str, deadline: float | None = None) -> Iterator[BranchBackend]:
    """The branch of a repository, to be written to."""
    ref = f"refs/heads/{branch}"
    if not is_remote(repository):
        local = LocalGitBackend(Git(git_folder(Path(repository)), deadline=deadline), ref)
        with contextlib.closing(local.reader):
            yield local
        return
    with scratch_clone(str(repository), branch, deadline) as git:
        remote = RemoteGitBackend(git, ref, str(repository))
        with contextlib.closing(remote.reader):
            yield remote


@contextmanager
def scratch_clone(url: str, branch: str, deadline: float | None = None) -> Iterator[Git]:
    """An empty repository that knows `url` as its origin, gone afterwards."""
    with temporary_folder("store") as scratch:
        folder = scratch / "scratch.git"
        init_bare(folder, branch)
        git = Git(folder, transfers=True, deadline=deadline)
        git.run("config", "remote.origin.url", url)
        if url.startswith("file://"):
            git.run("config", "remote.origin.uploadpack", _FILTERING)
        yield git


def read_commit(reader: ObjectReader, commit: str) -> Tip:
    """A commit from its own text."""
    head, _, message = reader.read(commit, "commit").decode("utf-8", "replace").partition("\n\n")
    facts = [line.split(" ", 1) for line in head.splitlines() if not line.startswith(" ")]
    trees = [value for name, value in facts if name == "tree"]
    return Tip(commit, trees[0], tuple(value for name, value in facts if name == "parent"), message)


def _is_temporary(error: GitError) -> bool:
    """Can the same push succeed later? A hook, a lock or another writer is temporary, missing rights are not."""
    if _FORBIDDEN.search(error.message):
        return False
    return bool(_BEATEN.search(error.message) or _FLEETING.search(error.message))
