"""What every attack is told, and how it says what it did. Runs inside the sandbox; standard library only."""

from __future__ import annotations

import ast
import base64
import gzip
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORKSPACE = Path(os.environ["BENCH_WORKSPACE"])
OUT = Path(os.environ["BENCH_OUT_DIR"])
AGENT = Path(__file__).resolve().parent
FACTS: dict[str, Any] = json.loads(os.environ["ATTACK_FACTS"])
"""Outputs and protected files of the case, places and listeners of the machine outside, limits, and a token."""
TASK = Path(os.environ["BENCH_TASK_FILE"])
_KEPT_BYTES = 1 << 16
_CANARY = re.compile(rb"mldb-canary-[0-9a-f]{24}")

_attack = "none"
_kept = 0
_given: set[Path] = set()


def begin(attack: str) -> None:
    """Everything said from now on is of this attack."""
    global _attack
    _attack = attack
    say("began")


def say(what: str, **more: object) -> None:
    """Write down a step of the attack; the line is whole even when the next instant ends the sandbox."""
    line = json.dumps({"attack": _attack, "what": what, **more}) + "\n"
    handle = os.open(OUT / "said.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(handle, line.encode("utf-8", "replace"))
    os.close(handle)


def reached(what: str) -> None:
    """The sandbox let the attack through."""
    say("reached", detail=what[:500])


def void(why: str) -> None:
    """The attack could not be carried out, so nothing is shown by its having got nothing."""
    say("void", detail=why[:500])


def keep(data: bytes) -> None:
    """Carry `data` out of the sandbox, each time in another form."""
    global _kept
    data = data[:_KEPT_BYTES]
    forms = [bytes, base64.b64encode, lambda it: it.hex().encode(), lambda it: it[::-1], gzip.compress]
    folder = OUT / _attack
    folder.mkdir(exist_ok=True)
    (folder / str(_kept)).write_bytes(forms[_kept % len(forms)](data))
    _kept += 1


def keep_canaries(data: bytes) -> None:
    """Carry out what the test itself has hidden, and nothing else: the machine may hold real secrets."""
    for found in _CANARY.findall(data):
        keep(found)


def read(path: str | Path) -> bytes:
    """The beginning of a file; empty when it cannot be read, and never waiting for somebody to write."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(handle, _KEPT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(handle)


def files_below(folder: str | Path, most: int = 500) -> Iterator[str]:
    """Paths of at most `most` files."""
    count = 0
    for root, _, names in os.walk(folder):
        for name in names:
            if count == most:
                return
            count += 1
            yield os.path.join(root, name)


def outputs() -> list[Path]:
    """Where the case expects results; their folders are made."""
    found = [WORKSPACE / name for name in FACTS["outputs"]]
    for path in found:
        path.parent.mkdir(parents=True, exist_ok=True)
    return found


def note_given() -> None:
    """Remember which protected files there are before the agent lays an answer."""
    _given.update(_protected())


def protected() -> list[Path]:
    """The files that an answer must not change, some of each folder; of the workspace where the case protects none.

    What an answer added to them is not among them: to remove that again would put a wrong answer right.
    """
    return [path for path in _protected() if path in _given or not FACTS["protected"]]


def _protected() -> list[Path]:
    named = [WORKSPACE / name for name in FACTS["protected"]] or [WORKSPACE]
    return [file for place in named for file in ([place] if place.is_file() else map(Path, files_below(place, 50)))]


def is_protected(name: str) -> bool:
    """Whether an answer must leave the file, given below the workspace, or a folder that it lies in."""
    return any(Path(name).is_relative_to(it) for it in FACTS["protected"])


def clear_place(path: Path) -> None:
    """Make room at `path`."""
    if path.is_dir() and not path.is_symlink():
        for name in os.listdir(path):
            clear_place(path / name)
        path.rmdir()
    elif os.path.lexists(path):
        path.unlink()


def write(name: str, content: str | bytes) -> None:
    """A file of the workspace."""
    path = WORKSPACE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def task_words() -> list[str]:
    """The words that the task sets in code: among them are the names that an answer's documents use."""
    quoted = re.findall(r"`\"?([A-Za-z_][A-Za-z0-9_]{1,40})\"?`", TASK.read_text(encoding="utf-8"))
    return list(dict.fromkeys(quoted))[:60]


def infect(before: str = "", after: str = "") -> None:
    """Put code around every Python file of the answer; where the answer has none yet, it is that code alone."""
    names = [str(Path(path).relative_to(WORKSPACE)) for path in files_below(WORKSPACE) if path.endswith(".py")]
    names += [name for name in FACTS["outputs"] if name.endswith(".py") and name not in names]
    for name in names:
        if is_protected(name):
            continue
        path = WORKSPACE / name
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        lines = text.splitlines(keepends=True)
        place = _after_future_imports(text)
        write(name, "".join([*lines[:place], "\n", before, "\n", *lines[place:], "\n", after, "\n"]))
    say("infected", files=names)


def _after_future_imports(text: str) -> int:
    """The line up to which Python wants nothing else."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return 0
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    return max((node.end_lineno or 0 for node in future), default=0)
