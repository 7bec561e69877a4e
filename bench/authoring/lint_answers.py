"""Faults of a case's wrong answers that are found without running them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.base.errors import UserError
from bench.base.files import walk_files
from bench.formats.case import Case
from bench.formats.patch import parse_patch
from bench.formats.patch_writing import make_patch
from bench.formats.wrong_answers import Tree, base_of, folder_of, patch_of, patched

_MIN_WRONG = 3
_LONGEST_TEXT = 200_000
_Answer = tuple[Tree, Tree, list[str]]
"""What is laid before the command, what after it, and the command: equal for equal answers."""


def lint_answers(case: Case) -> Iterator[str]:
    """Faults of `wrong/` and its entries, each one line with its place and remedy."""
    if len(case.spec.wrong) < _MIN_WRONG:
        yield f"wrong/: {len(case.spec.wrong)} wrong answers, at least {_MIN_WRONG} are needed, cheats among them"
    for path in sorted((case.folder / "wrong").glob("*")):
        if path.is_dir() or path.suffix == ".patch":
            if (path.name if path.is_dir() else path.stem) not in case.spec.wrong:
                yield f"case.yaml: wrong/{path.name} is not listed under `wrong`; list it or remove it"
        else:
            yield f"wrong/{path.name}: is not a patch or the folder of an answer; remove it"
    seen: list[tuple[str, _Answer]] = [
        ("the untouched workspace", (base_of(case, "starter"), Tree({}, frozenset()), [])),
        ("the solution", (base_of(case, "solution"), Tree({}, frozenset()), case.spec.solution.run)),
    ]
    for name in case.spec.wrong:
        found = list(_answer(case, name))
        yield from found
        if not found:
            answer = _as_laid(case, name)
            if same := next((other for other, earlier in seen if earlier == answer), None):
                yield f"wrong/{name}: is the same as {same}; remove one of them"
            seen.append((f"wrong/{name}", answer))


def _answer(case: Case, name: str) -> Iterator[str]:
    """Faults of one answer by itself."""
    patch, folder = patch_of(case, name), folder_of(case, name)
    if not patch.is_file() and not folder.is_dir():
        yield f"case.yaml: `wrong.{name}` has neither wrong/{name}.patch nor a folder wrong/{name}; add one of them"
        return
    base = base_of(case, case.spec.wrong[name].base)
    try:
        result = patched(case, name)
    except UserError as fault:
        yield str(fault)
        return
    touched = {change.path for change in parse_patch(patch.read_bytes(), patch.name)} if patch.is_file() else set()
    if patch.is_file() and result == base:
        yield f"wrong/{patch.name}: changes nothing; remove it"
    if folder.is_dir():
        yield from _folder(case, name, touched, base)
    yield from _protected(case, name)


def _folder(case: Case, name: str, touched: set[str], base: Tree) -> Iterator[str]:
    """Faults of the folder of whole files, which is only for what a patch cannot say."""
    folder = folder_of(case, name)
    entries = list(walk_files(folder))
    if not entries:
        yield f"wrong/{name}/: holds no file; remove it"
    own = Tree.read(folder)
    for path, entry in entries:
        if not entry.is_file(follow_symlinks=False):
            yield f"wrong/{name}/{path}: is not a regular file; remove it"
        elif path in touched:
            yield f"wrong/{name}/{path}: is in the patch, too; remove it from one of them"
        elif _patch_can_hold(own, path, base, shorter=bool(case.spec.wrong[name].run)):
            yield f"wrong/{name}/{path}: a patch can say this; write it with `ml-dev-bench cases patch`"


def _patch_can_hold(own: Tree, path: str, base: Tree, *, shorter: bool) -> bool:
    """Whether a patch could bring this file; `shorter`: in fewer lines, since only the folder comes after a command."""
    content = own.files[path]
    if not is_text(content) or (path in own.executable) != (path in base.executable):
        return False
    old = {path: base.files[path]} if path in base.files else {}
    return not shorter or make_patch(old, {path: content}).count(b"\n") < content.count(b"\n")


def is_text(content: bytes) -> bool:
    """Whether a patch can hold it: text that a person has written, or could have."""
    try:
        return len(content) <= _LONGEST_TEXT and "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _protected(case: Case, name: str) -> Iterator[str]:
    """The judge restores protected files, so an answer that changes one by mistake is not what its author thinks."""
    wrong, starter = case.spec.wrong[name], base_of(case, "starter")
    before, after, _ = _as_laid(case, name)
    changed = [
        path
        for path in sorted({*after.files, *before.files, *starter.files})
        if _is_protected(path, case.spec.protected) and (path in after.files or not before.same(path, starter))
    ]
    if changed and not wrong.tampers:
        yield (
            f"wrong/{name}: changes the protected {', '.join(changed)}, which the judge restores; "
            "say `tampers: true` in its entry, or leave the file as it is"
        )
    if wrong.tampers and not changed and not wrong.run:
        yield f"case.yaml: `wrong.{name}` says `tampers: true` and changes no protected file; remove the field"


def _is_protected(path: str, protected: Sequence[str]) -> bool:
    """Whether the file is named, or lies in a folder that is named."""
    return any(path == name or path.startswith(f"{name.rstrip('/')}/") for name in protected)


def _as_laid(case: Case, name: str) -> _Answer:
    wrong, folder = case.spec.wrong[name], folder_of(case, name)
    before, own = patched(case, name), Tree.read(folder)
    if wrong.run:
        return before, own, wrong.run
    both = Tree(before.files | own.files, before.executable - own.files.keys() | own.executable)
    return both, Tree({}, frozenset()), []
