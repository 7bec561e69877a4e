"""Plan and program out of a model's answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

_FENCE = re.compile(r"^[ \t]*```[ \t]*(\w*)[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.M | re.S)
_FIRST_FENCE = re.compile(r"^[ \t]*```.*$", re.M)
_LAST_FENCE = re.compile(r"\A(.*)^[ \t]*```[ \t]*$", re.M | re.S)
_NAME = re.compile(r"\A(?:#!.*\n)?#[ \t]*file:[ \t]*(\S+)[ \t]*$", re.M | re.I)
_PYTHON = frozenset({"python", "py", "python3"})


@dataclass(frozen=True)
class Program:
    plan: str
    code: str


def read_program(text: str) -> Program | None:
    """The plan before the first fence and all blocks that are Python, or None when there are not both."""
    first = _FIRST_FENCE.search(text)
    plan = text[: first.start()].strip() if first else ""
    if first is None or not plan:
        return None
    blocks = _FENCE.findall(text)
    labelled = [code for label, code in blocks if label.lower() in _PYTHON]
    wanted = labelled or [code for label, code in blocks if not label]
    code = "\n\n".join(block.strip() for block in wanted if _compiles(block))
    if not code:
        # Fences within the program's own texts break it apart: take all from the first fence to the last.
        whole = _LAST_FENCE.match(text[first.end() + 1 :])
        code = whole[1].strip() if whole and _compiles(whole[1]) else ""
    return Program(plan, code + "\n") if code else None


def file_name(code: str) -> str | None:
    """The name under which the program asks to be kept, when it is one inside the workspace."""
    found = _NAME.match(code)
    if found is None:
        return None
    path = PurePosixPath(found[1])
    inside = not path.is_absolute() and ".." not in path.parts and path.suffix == ".py"
    return str(path) if inside else None


def _compiles(code: str) -> bool:
    try:
        return bool(compile(code, "answer", "exec").co_code) and bool(code.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
