"""A case as its judge meets it in a proof: without its answers, and with faults of its code said in one line."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

from bench.formats.case import Case

ANSWERS = ("solution", "wrong")
"""Folders that no judge, data or service may read: they are not there in a proof."""
UNLOADABLE = "check.py cannot be loaded"
"""Begins what the judge says of a check.py that raises when it is imported."""
NOT_STARTED = "did not start"
"""In what is said of services that raise when they are imported."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*)$", re.MULTILINE)


class BrokenCodeError(Exception):
    """The code of a case fails before it has looked at any answer, so every proof would fail in the same way."""


def staged(case: Case, place: Path) -> Case:
    """A copy of the case below the folder `place` without its answers; its assets are those of the original."""
    root = place / case.id
    copies = {folder: root / folder.parent.name / folder.name for folder in case.folders}

    def left_out(path: str, names: list[str]) -> set[str]:
        return {"__pycache__", *(ANSWERS if Path(path) in copies else ())} & set(names)

    for folder, copy in copies.items():
        shutil.copytree(folder, copy, symlinks=True, ignore=left_out)
    assets = case.folder.parents[1] / "assets"
    if assets.is_dir():
        (root / "assets").symlink_to(assets.absolute(), target_is_directory=True)
    return replace(case, folder=copies[case.folder], parent=copies[case.parent] if case.parent else None)


def in_one_line(case: Case, traceback: str) -> str:
    """File and line of the case's code that failed, the error and what to do, of a traceback in any text."""
    frames = [(Path(path), line) for path, line in _FRAME.findall(traceback)]
    own = [
        (path.relative_to(folder), line)
        for path, line in frames
        for folder in case.folders
        if path.is_relative_to(folder)
    ]
    where = f"{own[-1][0]}: line {own[-1][1]}: " if own else ""
    errors = _ERROR.findall(traceback)
    error = errors[-1].strip() if errors else " ".join(traceback.split())[-300:]
    return f"{where}{error}; {_remedy(error)}; the other proofs were not tried"


def _remedy(error: str) -> str:
    if error.startswith(("ModuleNotFoundError", "ImportError")):
        return "correct the import, put the module into hidden/, or install it and name it in `needs.python`"
    if error.startswith(("SyntaxError", "IndentationError", "TabError")):
        return "fix the syntax"
    return "correct this line"
