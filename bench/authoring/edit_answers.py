"""Wrong answers for their author: laid out as a folder to edit, and made into a patch again."""

from __future__ import annotations

import re
from pathlib import Path

from bench.authoring.lint_answers import is_text
from bench.base.errors import UserError
from bench.base.files import lay_over, write_atomic
from bench.formats.case import Case
from bench.formats.case_parts import Base
from bench.formats.patch_writing import make_patch, moved_patch
from bench.formats.wrong_answers import Tree, base_of, folder_of, patch_of, patched
from bench.guest.trees import remove_tree

_NAME = r"[a-z][a-z0-9_]{0,63}"


def lay_out_answer(case: Case, name: str | None, base: Base, folder: Path) -> None:
    """Write the files of wrong answer `name`, or of the base of a new one, into the new `folder`; runs nothing."""
    if name is not None and name not in case.spec.wrong:
        raise UserError(
            f"no wrong answer {name!r}", where=f"case {case.id}", remedy="leave the name out to begin a new one"
        )
    if folder.exists():
        raise UserError("exists already", where=folder, remedy="name a folder that does not exist")
    tree = base_of(case, base) if name is None else patched(case, name)
    tree.write(folder)
    if name is not None and folder_of(case, name).is_dir():
        lay_over(folder_of(case, name), folder)


def save_answer(case: Case, name: str, base: Base, source: Path) -> list[Path]:
    """Make wrong answer `name` from the edited folder `source`; returns the files written.

    Text becomes the patch. What a patch cannot hold becomes `wrong/<name>/`; what was there before is replaced.
    """
    if not source.is_dir():
        raise UserError("is not a folder", where=source, remedy="name the folder that `cases answer` has written")
    if name not in case.spec.wrong and not re.fullmatch(_NAME, name):
        raise UserError(f"{name!r} is not a name for a wrong answer", where="cases patch", remedy="use a-z, 0-9 and _")
    before, after = base_of(case, base), Tree.read(source)
    whole = {
        path
        for path, content in after.files.items()
        if not after.same(path, before)
        and (not is_text(content) or (path in after.executable) != (path in before.executable))
    }
    old = {path: content for path, content in before.files.items() if path not in whole}
    new = {path: content for path, content in after.files.items() if path not in whole}
    patch = make_patch(old, new)
    if not patch and not whole:
        raise UserError(f"is the same as the {base}", where=source, remedy="edit the folder first")
    return _write(case, name, patch, Tree({path: after.files[path] for path in whole}, after.executable & whole))


def _write(case: Case, name: str, patch: bytes, whole: Tree) -> list[Path]:
    place, folder = case.folder / "wrong" / f"{name}.patch", case.folder / "wrong" / name
    place.unlink(missing_ok=True)
    if folder.is_dir():
        remove_tree(folder)
    if patch:
        write_atomic(place, patch)
    if whole.files:
        whole.write(folder)
    return [place] * bool(patch) + [folder / path for path in sorted(whole.files)]


def move_patches(case: Case) -> list[Path]:
    """Move the stale hunks of all patches to where their lines stand now; returns the patches that were rewritten.

    Raises `UserError` at the first hunk whose lines stand nowhere or at several places; those before it are moved.
    """
    moved = []
    for name, wrong in case.spec.wrong.items():
        path = patch_of(case, name)
        if path.is_file():
            data = path.read_bytes()
            new = moved_patch(data, base_of(case, wrong.base).files, f"{case.id}: wrong/{path.name}")
            if new != data:
                write_atomic(path, new)
                moved.append(path)
    return moved
