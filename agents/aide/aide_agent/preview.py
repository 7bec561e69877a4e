"""What is in the workspace, in a form short enough for a prompt: names, tables in figures, and programs."""

from __future__ import annotations

import csv
import json
import os
from itertools import islice
from pathlib import Path

from .shared.texts import cut

LONGEST_PREVIEW = 6_000
LONGEST_STARTERS = 24_000
_LONGEST_STARTER = 8_000
_FILES_A_FOLDER, _FEWER_FILES, _MANY_FILES = 8, 4, 30
_SHORT_TEXT_LINES = 30
_ROWS_LOOKED_AT = 2_000
_COLUMNS_SHOWN = 60
_EXAMPLES = 3
_LARGEST_READ = 2_000_000
_TABLES = {".csv": ",", ".tsv": "\t"}
_TEXTS = frozenset({".md", ".txt", ".log", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".rst"})
_PROGRAMS = frozenset({".py", ".sh", ".c", ".cpp", ".cu", ".r", ".ipynb"})
_HIDDEN = frozenset({"__pycache__", ".git"})


def data_preview(root: Path) -> str:
    """The tree of files and what is known of their contents; the short form when that is too long."""
    files = _files(root)
    tree = "\n".join(_branches(root, "", _FEWER_FILES if len(files) > _MANY_FILES else _FILES_A_FOLDER))
    if not tree:
        return "The workspace is empty."
    for brief in (False, True):
        parts = [part for path in files if (part := _look(path, root, brief))]
        text = "\n\n".join([tree, *parts])
        if len(text) <= LONGEST_PREVIEW:
            return text
    return cut(text, LONGEST_PREVIEW)


def starters(root: Path) -> str:
    """The programs that the workspace came with, for these tasks are often about changing them."""
    parts: list[str] = []
    room = LONGEST_STARTERS
    for path in _files(root):
        if path.suffix.lower() in _PROGRAMS and path.stat().st_size <= _LARGEST_READ:
            text = cut(path.read_text(encoding="utf-8", errors="replace").rstrip(), _LONGEST_STARTER)
            part = f"`{path.relative_to(root)}`:\n\n````\n{text}\n````"
            if len(part) > room:
                parts.append(f"`{path.relative_to(root)}`: not shown for want of room")
                continue
            room -= len(part)
            parts.append(part)
    return "\n\n".join(parts)


def _files(root: Path) -> list[Path]:
    found: list[Path] = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in _HIDDEN)
        found += [path for name in sorted(files) if (path := Path(folder, name)).is_file()]
    return found


def _branches(folder: Path, indent: str, most: int) -> list[str]:
    entries = sorted((entry for entry in os.scandir(folder) if entry.name not in _HIDDEN), key=lambda entry: entry.name)
    folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    files = [entry for entry in entries if not entry.is_dir(follow_symlinks=False)]
    shown: list[str] = []
    for entry in folders[:most]:
        shown += [f"{indent}{entry.name}/", *_branches(Path(entry.path), indent + "    ", most)]
    for entry in files[:most]:
        shown.append(f"{indent}{entry.name} ({entry.stat(follow_symlinks=False).st_size} bytes)")
    hidden = max(len(folders) - most, 0) + max(len(files) - most, 0)
    return [*shown, f"{indent}... and {hidden} more"] if hidden else shown


def _look(path: Path, root: Path, brief: bool) -> str:
    name = str(path.relative_to(root))
    suffix = path.suffix.lower()
    try:
        if suffix in _TABLES:
            return _table(path, name, _TABLES[suffix], brief)
        if path.stat().st_size > _LARGEST_READ:
            return ""
        if suffix == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            return f"{name} has this structure:\n{cut(_schema(content, 0, brief), LONGEST_PREVIEW // 4)}"
        if suffix in _TEXTS:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            if len(lines) < _SHORT_TEXT_LINES and not brief:
                return f"{name}:\n" + "\n".join(lines)
            return f"{name} begins:\n" + "\n".join(line[:200] for line in lines[: 3 if brief else 10])
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        return f"{name} cannot be read: {type(error).__name__}"
    return ""


def _table(path: Path, name: str, delimiter: str, brief: bool) -> str:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter)
        header = next(reader, [])
        rows = list(islice(reader, _ROWS_LOOKED_AT))
        total = len(rows) + sum(1 for _ in reader)
    first = f"{name}: {total} rows, {len(header)} columns"
    if brief:
        return f"{first}: {cut(', '.join(header), LONGEST_PREVIEW // 4)}"
    facts = [
        f"- {column}: {_column([row[index] for row in rows if len(row) > index])}"
        for index, column in enumerate(header[:_COLUMNS_SHOWN])
    ]
    more = [f"- and {len(header) - _COLUMNS_SHOWN} more"] if len(header) > _COLUMNS_SHOWN else []
    return "\n".join([first, *facts, *more])


def _column(values: list[str]) -> str:
    there = [value for value in values if value.strip().lower() not in ("", "nan", "na", "null")]
    missing = f", {len(values) - len(there)} missing" if len(there) < len(values) else ""
    if not there:
        return f"empty{missing}"
    try:
        numbers = [float(value) for value in there]
    except ValueError:
        different = list(dict.fromkeys(there))
        examples = ", ".join(value[:40] for value in different[:_EXAMPLES])
        return f"{len(different)} different texts, such as {examples}{missing}"
    return f"numbers from {min(numbers):g} to {max(numbers):g}, {len(set(numbers))} different{missing}"


def _schema(value: object, depth: int, brief: bool) -> str:
    """The shape of a JSON value; lists by their first element."""
    indent = "  " * (depth + 1)
    if isinstance(value, dict) and value:
        if brief and depth > 0:
            return f"object with {len(value)} keys"
        lines = [f"{indent}{key}: {_schema(below, depth + 1, brief)}" for key, below in list(value.items())[:20]]
        more = [f"{indent}... and {len(value) - 20} more"] if len(value) > 20 else []
        return "\n".join(["object", *lines, *more])
    if isinstance(value, list) and value:
        return f"list of {len(value)}, the first: {_schema(value[0], depth + 1, brief)}"
    return "empty" if value in ({}, []) else type(value).__name__
