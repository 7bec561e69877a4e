"""Reading, writing and listing files for the model. Faults come back as text that says what to do."""

from __future__ import annotations

import os
from pathlib import Path

from prompts import LONGEST_OBSERVATION
from shared.texts import cut

_LARGEST_READ = 2_000_000
_AROUND = 3
_MOST_ENTRIES = 20
_HIDDEN = frozenset({"__pycache__"})


def write_file(path: Path, content: str) -> str:
    _refuse_special(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, content)
    return f"wrote {len(_lines(content))} lines{_syntax_note(path, content)}"


def read_file(path: Path, start: int, end: int | None) -> str:
    """The lines `start` to `end`, both included, each with its number."""
    _refuse_special(path)
    size = path.stat().st_size
    if size > _LARGEST_READ:
        return f"error: the file has {size} bytes; look at parts of it with `run` and head, tail or grep"
    lines = _lines(path.read_text(encoding="utf-8", errors="replace"))
    last = len(lines) if end is None else min(end, len(lines))
    if start < 1 or (start > last and lines):
        return f"error: no lines {start} to {end}; the file has {len(lines)} lines"
    return cut(_numbered(lines, start, last), LONGEST_OBSERVATION) or "[the file is empty]"


def edit_file(path: Path, start: int, end: int, text: str) -> str:
    """Replace the lines `start` to `end`, both included, by `text`; `end` = `start` - 1 inserts before `start`."""
    _refuse_special(path)
    with path.open(encoding="utf-8", newline="") as file:
        old = file.read()
    lines, new = _lines(old), _lines(text)
    if start < 1 or start > len(lines) + 1 or end < start - 1 or end > len(lines):
        return f"error: no lines {start} to {end}; the file has {len(lines)} lines"
    lines[start - 1 : end] = new
    content = "\n".join(lines) + ("\n" if lines and (old.endswith("\n") or not old) else "")
    _write(path, content)
    shown = _numbered(lines, max(start - _AROUND, 1), min(start + len(new) - 1 + _AROUND, len(lines)))
    text = f"replaced {end - start + 1} lines by {len(new)}{_syntax_note(path, content)}\n{shown}"
    return cut(text, LONGEST_OBSERVATION)


def tree(root: Path, depth: int) -> str:
    """Names and sizes below `root`, at most so many a folder."""
    return cut("\n".join(_branches(root, depth, "")), LONGEST_OBSERVATION) or "[the folder is empty]"


def _branches(folder: Path, depth: int, indent: str) -> list[str]:
    entries = sorted((entry for entry in os.scandir(folder) if entry.name not in _HIDDEN), key=lambda entry: entry.name)
    shown: list[str] = []
    for entry in entries[:_MOST_ENTRIES]:
        if entry.is_dir(follow_symlinks=False):
            shown.append(f"{indent}{entry.name}/")
            if depth > 1:
                shown += _branches(Path(entry.path), depth - 1, indent + "  ")
        else:
            shown.append(f"{indent}{entry.name} ({entry.stat(follow_symlinks=False).st_size} bytes)")
    if len(entries) > _MOST_ENTRIES:
        shown.append(f"{indent}[and {len(entries) - _MOST_ENTRIES} more]")
    return shown


def _refuse_special(path: Path) -> None:
    """A pipe or a device would block for ever."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file")


def _lines(text: str) -> list[str]:
    """Lines as editors and compilers count them; str.splitlines would also break at form feeds."""
    return text.removesuffix("\n").split("\n") if text else []


def _write(path: Path, content: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(content)


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{number:5d}  {lines[number - 1]}" for number in range(first, last + 1))


def _syntax_note(path: Path, content: str) -> str:
    """A word about Python that will not compile, so that it is noticed at once."""
    if path.suffix != ".py":
        return ""
    try:
        compile(content, path.name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"; warning: this is not valid Python: {error}"
    return ""
