"""The history of the results branch, commit by commit: files are added, ledgers grow, and nothing else ever happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.errors import UserError
from bench.store.decisions import FILE
from bench.store.git import Git, GitError
from bench.store.reading import Copy


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was stored."""

    where: str
    what: str


@dataclass(frozen=True)
class Step:
    """One commit."""

    commit: str
    added: tuple[str, ...]
    """Paths of the files it brought."""


@dataclass(frozen=True)
class _Edit:
    """A commit's change of one path."""

    status: str
    path: str
    old: str
    new: str


def walk_history(copy: Copy, tip: str) -> Iterator[Step | Finding]:
    """Every commit from the first to `tip`, and a finding for whatever was not added; raises `UserError`."""
    git = copy.git
    try:
        if git.text("rev-parse", "--is-shallow-repository") == "true":
            raise UserError(
                "has no whole history: it is a shallow clone", where=git.folder, remedy="git fetch --unshallow"
            )
        lines = git.text("rev-list", "--reverse", "--first-parent", "--parents", tip).splitlines()
    except GitError as error:
        raise UserError(str(error), where=git.folder, remedy="is the repository whole?") from None
    for commit, *parents in (line.split() for line in lines):
        if len(parents) > 1:
            yield Finding(f"commit {commit[:12]}", f"has {len(parents)} parents: somebody merged by hand")
    grown: list[tuple[str, _Edit]] = []
    for commit, edits in _edits(git, lines):
        yield Step(commit, tuple(edit.path for edit in edits if edit.status == "A"))
        for edit in edits:
            if edit.status == "M" and FILE.fullmatch(edit.path):
                grown.append((commit, edit))
            elif edit.status != "A":
                done = {"M": "changed", "D": "removed", "T": "changed in kind"}.get(edit.status, "touched")
                yield Finding(edit.path, f"was {done} by commit {commit[:12]}")
    yield from _shrunk(copy, grown)


def _edits(git: Git, lines: list[str]) -> Iterator[tuple[str, list[_Edit]]]:
    """Each commit with what it changed against its first parent."""
    asked = "".join(" ".join(line.split()[:2]) + "\n" for line in lines).encode()
    options = ("--stdin", "--root", "--always", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    try:
        tokens = iter(git.run("diff-tree", *options, stdin=asked).decode("utf-8", "surrogateescape").split("\0"))
    except GitError as error:
        raise UserError(str(error), where=git.folder, remedy="is the repository whole?") from None
    commit, edits = "", list[_Edit]()
    for token in tokens:
        if token.startswith(":"):
            _, _, old, new, status = token.split(" ")
            edits.append(_Edit(status, next(tokens), old, new))
        elif token.strip():
            if commit:
                yield commit, edits
            commit, edits = token.split()[0], []
    if commit:
        yield commit, edits


def _shrunk(copy: Copy, grown: list[tuple[str, _Edit]]) -> Iterator[Finding]:
    """Of the ledgers that grew, those whose old lines are not all there still."""
    contents = copy.read([sha for _, edit in grown for sha in (edit.old, edit.new)])
    for commit, edit in grown:
        old, new = next(contents), next(contents)
        if not new.startswith(old):
            yield Finding(edit.path, f"lost or changed a line in commit {commit[:12]}")
    contents.close()
