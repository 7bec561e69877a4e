"""The wrong answers of a case, laid out: base, patch, the entry's command, then the files of its folder.

The base is the starter with the solution over it, or the starter alone. The command is the entry's own: what the
solution runs is run only if the entry repeats it.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.base.errors import UserError
from bench.base.files import lay_over, walk_files, write_atomic
from bench.formats.case import Case
from bench.formats.case_parts import Base
from bench.formats.patch import apply_patch, parse_patch


@dataclass(frozen=True)
class Tree:
    """The regular files of a folder by relative path, and which of them are executable."""

    files: dict[str, bytes]
    executable: frozenset[str]

    @classmethod
    def read(cls, *folders: Path) -> Tree:
        """The files of `folders`, each laid over those before; caches and links are left out."""
        files: dict[str, bytes] = {}
        executable: dict[str, bool] = {}
        for folder in folders:
            for path, entry in walk_files(folder):
                if entry.is_file(follow_symlinks=False):
                    files[path] = Path(entry.path).read_bytes()
                    executable[path] = bool(entry.stat(follow_symlinks=False).st_mode & stat.S_IXUSR)
        return cls(files, frozenset(path for path, runs in executable.items() if runs))

    def same(self, path: str, other: Tree) -> bool:
        """Whether both have the file, with the same content and mode."""
        here, there = self.files.get(path), other.files.get(path)
        return here is not None and here == there and (path in self.executable) == (path in other.executable)

    def write(self, folder: Path, without: Tree | None = None) -> None:
        """Write the files below `folder`, but for those that are the same in `without`."""
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in self.files.items():
            if without is None or not self.same(path, without):
                write_atomic(folder / path, content, 0o755 if path in self.executable else 0o644)


class LaidOut(NamedTuple):
    """A wrong answer as it comes over the starter, in this order."""

    folder: Path
    """Files to lay over the starter."""
    run: list[str]
    """The command to run then; empty for none."""
    removed: list[str]
    """Files of the starter that the answer does not have."""
    last: Path | None
    """Files to lay over what the command has left; None where there is no command or no such file."""


def patch_of(case: Case, name: str) -> Path:
    return case.part(f"wrong/{name}.patch")


def folder_of(case: Case, name: str) -> Path:
    """Files that a patch cannot hold: binary ones and executable ones."""
    return case.part(f"wrong/{name}")


def base_of(case: Case, base: Base) -> Tree:
    """What a patch is applied to."""
    return Tree.read(*[case.part("workspace"), case.part("solution")][: 1 if base == "starter" else 2])


def patched(case: Case, name: str) -> Tree:
    """Base and patch of wrong answer `name`; raises `UserError` where the patch is stale or is not one."""
    base = base_of(case, case.spec.wrong[name].base)
    path = patch_of(case, name)
    if not path.is_file():
        return base
    where = f"{case.id}: wrong/{path.name}"
    files = apply_patch(parse_patch(path.read_bytes(), where), base.files, where)
    return Tree(files, base.executable & files.keys())


def telling_answer(case: Case) -> str:
    """The wrong answer that stands for the case's: the first that the original accepts, else the first.

    Raises `UserError` for a case without any.
    """
    named = list(case.spec.wrong)
    if not named:
        raise UserError("does not have a wrong answer", where=case.folder / "case.yaml", remedy="add three, in `wrong`")
    return next((name for name in named if case.spec.wrong[name].original == "accepts"), named[0])


def materialise(case: Case, name: str, folder: Path) -> LaidOut:
    """Lay wrong answer `name` out below the empty `folder`; raises `UserError` where its files do not fit the case."""
    wrong, own = case.spec.wrong[name], folder_of(case, name)
    if not patch_of(case, name).is_file() and not own.is_dir():
        raise UserError(
            f"neither wrong/{name}.patch nor a folder wrong/{name} is there",
            where=f"{case.id}: wrong answer {name}",
            remedy="add one of them or remove the entry from case.yaml",
        )
    starter, answer = base_of(case, "starter"), patched(case, name)
    first, last = folder / "first", folder / "last"
    answer.write(first, without=starter)
    if own.is_dir():
        lay_over(own, last if wrong.run else first)
    removed = sorted(path for path in starter.files.keys() - answer.files.keys() if not (first / path).is_file())
    return LaidOut(first, wrong.run, removed, last if last.is_dir() else None)
