"""Reading a whole branch: file after file from one process of git, in constant memory."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from bench.base.errors import UserError
from bench.base.text import meant
from bench.formats.older_records import parse_records
from bench.formats.record import Record
from bench.store.decisions import Decision, Ledger, parse_decisions
from bench.store.git import Entry, Git, GitError
from bench.store.git.backend import edited_by_hand, git_folder, is_remote, without_secrets
from bench.store.git.git_backend import scratch_clone
from bench.store.git.objects import ObjectReader


@dataclass(frozen=True)
class Copy:
    """A branch that lies on this machine."""

    git: Git
    tip: str | None

    def files(self, folder: str) -> dict[str, Entry]:
        """All files below `folder` by path."""
        return self.git.list_files(self.tip, folder) if self.tip else {}

    def read(self, blobs: Sequence[str]) -> Generator[bytes, None, None]:
        """The content of each blob, one at a time."""
        with contextlib.closing(ObjectReader(self.git)) as reader:
            for sha in blobs:
                yield reader.read(sha, "blob")

    def contents(self, folder: str, suffix: str) -> Iterator[tuple[str, bytes]]:
        """Path and content of each file below `folder`; raises `UserError` for any other kind of file."""
        files = self.files(folder)
        for path, entry in files.items():
            if not path.endswith(suffix) or entry.kind != "blob":
                raise UserError(f"is not a {suffix} file", where=path, remedy="only the benchmark writes this branch")
        try:
            yield from zip(files, self.read([entry.sha for entry in files.values()]), strict=True)
        except GitError as error:
            raise UserError(str(error), where=folder) from None

    def decisions(self) -> list[Decision]:
        """The whole ledger, the oldest decision first."""
        found: list[Decision] = []
        for path, content in self.contents("decisions", ".jsonl"):
            found += parse_decisions(content, path)
        return found

    def records(self, *, withdrawn: bool) -> Iterator[Record]:
        """All records, file by file in the order of their paths; `withdrawn`: those too that do not count."""
        ledger = Ledger.of(self.decisions())
        for path, content in self.contents("runs", ".jsonl"):
            for record in parse_records(content, path):
                if withdrawn or ledger.counts(record, attempt_of(path, record)):
                    yield record


@contextmanager
def open_copy(repository: Path | str, branch: str, *, history: bool = False) -> Iterator[Copy]:
    """The branch with its contents; one behind a URL is fetched whole, with or without its history."""
    ref = f"refs/heads/{branch}"
    if not is_remote(repository):
        git = Git(git_folder(Path(repository)))
        yield Copy(git, git.commit_of(ref))
        return
    with scratch_clone(str(repository), branch) as git:
        depth = [] if history else ["--depth=1"]
        try:
            # `ls-remote` matches the ends of names, so that it may list other references too.
            if any(line.split("\t")[-1] == ref for line in git.text("ls-remote", "origin", ref).splitlines()):
                git.run("fetch", "--quiet", "--no-tags", *depth, "origin", f"+{ref}:{ref}")
        except GitError as error:
            message, where = without_secrets(error.message), without_secrets(str(repository))
            raise UserError(message, where=where, remedy="check the address and the access") from None
        yield Copy(git, git.commit_of(ref))


def require_branch(repository: Path | str, branch: str, tip: str | None, *, may_be_new: bool = False) -> None:
    """Raise `UserError` where there is no branch of this name, with the one that may have been meant.

    tip: as `open_copy` found it. may_be_new: results may still be to come; then only a name near another one is wrong.
    """
    if tip:
        return
    names = _branches(repository)
    if may_be_new and not get_close_matches(branch, names, n=1):
        return
    remedy = meant(branch, names) if names else "store results first, with `ml-dev-bench run --results`"
    where = without_secrets(str(repository))
    raise UserError(f"no branch {branch!r}", where=where, remedy=f"{remedy}; --branch names it" if names else remedy)


def _branches(repository: Path | str) -> list[str]:
    """Their names; none where the repository is new or does not tell them."""
    heads = "refs/heads/"
    try:
        if not is_remote(repository):
            git = Git(git_folder(Path(repository)))
            return [line.removeprefix(heads) for line in git.text("for-each-ref", "--format=%(refname)", heads).split()]
        with scratch_clone(str(repository), "none") as git:
            lines = git.text("ls-remote", "--heads", "origin").splitlines()
            return [line.split("\t")[-1].removeprefix(heads) for line in lines]
    except GitError:
        return []


def is_earlier(repository: Path | str, branch: str, commit: str, other: str) -> bool:
    """Is `commit` of this branch older than `other`, which came from it? Raises `UserError` without access.

    False, too, where `other` is of another history, or not in this repository.
    """
    if not is_remote(repository):
        return _precedes(Git(git_folder(Path(repository))), commit, other)
    with scratch_clone(str(repository), branch) as git:
        ref = f"refs/heads/{branch}"
        try:
            # Commits alone: what they hold may be large.
            git.run("fetch", "--quiet", "--no-tags", "--filter=tree:0", "origin", f"+{ref}:{ref}")
        except GitError as error:
            message, where = without_secrets(error.message), without_secrets(str(repository))
            raise UserError(message, where=where, remedy="check the address and the access") from None
        return _precedes(git, commit, other)


def _precedes(git: Git, commit: str, other: str) -> bool:
    try:
        return commit != other and git.text("merge-base", commit, other).strip() == commit
    except GitError:
        return False


def attempt_of(path: str, record: Record) -> int:
    """The attempt in `<run>-<attempt>-<agent>.jsonl`; raises `UserError` where the name and the record disagree."""
    name = path.rpartition("/")[2]
    head, tail = f"{record.provenance.run}-", f"-{record.agent.id}.jsonl"
    number = name.removeprefix(head).removesuffix(tail)
    if not (name.startswith(head) and name.endswith(tail) and number.isascii() and number.isdigit()):
        raise edited_by_hand(f"holds cell {record.cell} of run {record.provenance.run}", where=path)
    return int(number)
