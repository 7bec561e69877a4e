"""A folder made to fit, whatever it holds: some of its files, or names that all systems take. Standard library only."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.guest.trees import remove_tree


@dataclass(frozen=True)
class Bounds:
    """How much of a folder is kept."""

    size: int = 1 << 62
    """Bytes, holes in files included, and a file counts under each of its names."""
    entries: int = 1 << 62
    """Files, folders and everything else."""


FULL = (errno.ENOSPC, errno.EDQUOT)
"""Of a disk."""
GONE = ".gone-"
"""How folders begin that hold nothing but what is to be removed."""
MAX_PATH = 1000
"""Bytes of a path below the folder; the system takes 4,096, including the runner's own path before it."""
_MAX_DEPTH = 24
"""Folders around a file; those who unpack an untrusted archive take 32, the run's own among them."""
_MAX_NAME = 255
_LONGEST_CUT = 200
_REFUSED = frozenset('"*:<>?|\\')
"""Of these actions/upload-artifact refuses all but the last, which archives take for the border of a folder."""
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def reduce_to(root: Path, names: Iterable[str], bounds: Bounds, parent: Path) -> None:
    """Keep nothing of the folder but the regular files of these names, as far as they fit; the rest goes to `parent`.

    Looks at nothing else, so it takes no longer the more there is.
    """
    aside = parent / f"{GONE}{secrets.token_hex(6)}"
    os.chmod(root, stat.S_IRWXU)
    root.rename(aside)
    try:
        root.mkdir()
    except OSError as error:
        if error.errno not in FULL:
            raise
        # Not even a folder fits: what has filled the disk goes, whatever it is.
        remove_tree(aside)
        root.mkdir()
    left = bounds.size
    for name in dict.fromkeys(names):
        source = aside / name
        size = _size_within(source, aside)
        if size is not None and size <= left:
            left -= size
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            source.rename(root / name)


def _size_within(path: Path, root: Path) -> int | None:
    """The size of the regular file at `path`, whose parents below `root` are real folders; None for anything else."""
    try:
        for parent in reversed(list(path.relative_to(root).parents)[:-1]):
            if not stat.S_ISDIR(os.lstat(root / parent).st_mode):
                return None
            os.chmod(root / parent, stat.S_IRWXU)
        info = os.lstat(path)
    except OSError:
        return None
    return max(info.st_size, info.st_blocks * 512) if stat.S_ISREG(info.st_mode) else None


def make_names_portable(root: Path, take_out: Callable[[Path], None]) -> None:
    """Rename what some system or archive would refuse, leave out, or take for another; all of it is harmless already.

    One such name would keep the whole folder that it lies in from being uploaded, with all that lies there. A file of
    several names becomes several files: `results collect` refuses it else, since it could be another one's.
    """
    pending = [("", 0)]
    while pending:
        inside, depth = pending.pop()
        folder = root / inside
        for name, chosen in zip(names := sorted(os.listdir(folder)), _chosen(names), strict=True):
            path = folder / chosen
            if name != chosen:
                (folder / name).rename(path)
            relative = f"{inside}{chosen}"
            is_folder = path.is_dir()
            if len(relative.encode()) > MAX_PATH or (is_folder and depth >= _MAX_DEPTH):
                take_out(path)
            elif is_folder:
                pending.append((f"{relative}/", depth + 1))
            elif path.stat().st_nlink > 1:
                _separate(path, take_out)


def _separate(path: Path, take_out: Callable[[Path], None]) -> None:
    """Make the file at `path` one of its own, or take it out where there is no room."""
    copy = path.with_name(f"{GONE}{secrets.token_hex(6)}")
    try:
        shutil.copy(path, copy)
    except OSError as error:
        copy.unlink(missing_ok=True)
        if error.errno not in FULL:
            raise
        take_out(path)
    else:
        copy.replace(path)


def _chosen(names: Sequence[str]) -> list[str]:
    """A portable name for each, no two of which are one where case does not count; those that are keep theirs."""
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        if portable_name(name) == name and name.casefold() not in taken:
            chosen[name] = name
            taken.add(name.casefold())
    tried: Counter[str] = Counter()
    for name in names:
        if name not in chosen:
            wanted = found = portable_name(name)
            while found.casefold() in taken:
                tried[wanted.casefold()] += 1
                found = f"{_cut(wanted, _LONGEST_CUT)}~{tried[wanted.casefold()] + 1}"
            chosen[name] = found
            taken.add(found.casefold())
    return [chosen[name] for name in names]


def portable_name(name: str) -> str:
    """The name itself where every system and archive takes it, else with some characters written as in an address."""
    found = "".join(char if char.isprintable() and char not in _REFUSED else _written(char) for char in name)
    if found[0] == ".":
        # actions/upload-artifact leaves hidden files out, and who collects would miss what the record names.
        found = _written(found[0]) + found[1:]
    if found[-1] in ". ":
        found = found[:-1] + _written(found[-1])
    if _DEVICE.fullmatch(found):
        found = _written(found[0]) + found[1:]
    if len(found.encode()) <= _MAX_NAME:
        return found
    return f"{_cut(found, _LONGEST_CUT)}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _written(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())


def _cut(name: str, most: int) -> str:
    return name.encode()[:most].decode(errors="ignore")
