"""What an agent has left, made harmless and listed: in a process that can be ended, whatever the folder holds.

Runs as a fork of the trusted server (`serve`). Standard library only.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from bench.base.files import sha256_file, shadows, walk_files
from bench.cell.inventory import MAX_LISTED, keep_inventory
from bench.cell.reduction import FULL, GONE, MAX_PATH, Bounds, make_names_portable, reduce_to
from bench.guest.trees import remove_tree

_MAX_NOTED = 200
_MAX_NAMED = 5
_CACHE = "__pycache__"
_UNBOUNDED = Bounds()


@dataclass
class Snapshot:
    """A workspace after the agent: regular files only, protected ones restored."""

    folder: Path
    tampered: list[str] = field(default_factory=list)
    """Protected files that had been changed or removed, now restored, and what stood before one, now gone."""
    dropped: list[str] = field(default_factory=list)
    """Devices, sockets, unreadable names and paths too long, taken out."""
    links: list[str] = field(default_factory=list)
    """Symbolic links, taken out. Honest tools make them for convenience; as an output one is suspicious."""
    files: int = 0
    too_large: str = ""
    """Which bound it exceeded, and what was taken out for that; empty: none."""
    changed: bool = False
    """It differs from the start. Known only where an inventory was asked for."""


class CrowdedError(Exception):
    """A folder has more entries than are looked at."""


class _Aside:
    """A folder for what is taken out: to move a tree takes no time, however large it is."""

    def __init__(self, parent: Path) -> None:
        self._place = parent / f"{GONE}{secrets.token_hex(6)}"
        self._count = 0

    def __call__(self, path: Path) -> None:
        try:
            self._move(path)
        except OSError as error:
            if error.errno not in FULL:
                raise
            # Of a full disk: what is taken out is what has filled it.
            remove_tree(path)

    def _move(self, path: Path) -> None:
        self._place.mkdir(exist_ok=True)
        self._count += 1
        if path.is_dir() and not path.is_symlink():
            # A folder can be moved only by who may write to it.
            path.chmod(stat.S_IRWXU)
        path.rename(self._place / str(self._count))


def serve(orders: dict[str, Any], answers: BinaryIO) -> None:
    """Do one of this module's tasks: `snapshot` of a workspace, `harmless` (a folder without a start), `remove`.

    `portable` is `harmless`, and gives files names under which they can be uploaded.
    """
    if orders["task"] == "remove":
        for path in orders["paths"]:
            remove_tree(Path(path))
        return
    made = _within(orders)
    if orders["task"] == "snapshot":
        start = Path(orders["start"])
        restore_protected(made, start, orders["protected"])
        if orders["inventory"]:
            made.changed = keep_inventory(start, made.folder, Path(orders["inventory"]), _told(made))
    elif orders["task"] == "portable":
        make_names_portable(made.folder, _Aside(Path(orders["aside"])))
    answers.write(json.dumps(asdict(made), default=str).encode())


def _within(orders: dict[str, Any]) -> Snapshot:
    """The folder within its bounds: whole, or only the files of it that the case names, or empty."""
    root, aside = Path(orders["root"]), Path(orders["aside"])
    bounds = Bounds(orders["size"], orders["entries"])
    why = orders["why"]
    if orders["keep"] == "whole":
        try:
            return make_harmless(root, bounds, _Aside(aside))
        except CrowdedError:
            why = f"more than {bounds.entries:,} files and folders"
    names = [] if orders["keep"] == "nothing" else _named(orders)
    reduce_to(root, names, bounds, aside)
    made = make_harmless(root, bounds, _Aside(aside))
    made.too_large = f"{why}: {'only files that the case names' if names else 'nothing'} stayed"
    return made


def _told(made: Snapshot) -> dict[str, list[str]]:
    """What an inventory says beside the files."""
    return {"tampered": made.tampered[:MAX_LISTED], "dropped": made.dropped, "links": made.links}


def _named(orders: dict[str, Any]) -> list[str]:
    """The files that the case names: those of the start, and those that an agent must leave."""
    starters = walk_files(Path(orders["start"])) if orders["start"] else ()
    return [*orders["outputs"], *(name for name, _ in starters)]


def take_snapshot(workspace: Path, start: Path, protected: list[str]) -> Snapshot:
    """Make the finished workspace harmless in place: no process runs in it any more, so nothing must be copied."""
    snapshot = make_harmless(workspace)
    restore_protected(snapshot, start, protected)
    return snapshot


def restore_protected(snapshot: Snapshot, start: Path, protected: list[str]) -> None:
    """Put the starter's protected files back, and remove what would be imported in place of one."""
    workspace = snapshot.folder
    for name in _protected_files(start, protected):
        original, present = start / name, workspace / name
        if not _is_plain(present, workspace) or sha256_file(present) != sha256_file(original):
            snapshot.tampered.append(name)
            _restore(original, present, workspace)
        for shadow in list(shadows(present)):
            place = shadow.relative_to(workspace)
            if not (start / place).exists():
                snapshot.tampered.append(str(place))
                remove_tree(shadow)


def _protected_files(start: Path, protected: Sequence[str]) -> Iterator[str]:
    """The starter's files that are meant: those that are named, and all below a folder that is named."""
    for name in protected:
        if (start / name).is_dir():
            yield from (str(it.relative_to(start)) for it in sorted((start / name).rglob("*")) if it.is_file())
        elif (start / name).is_file():
            yield name


def make_harmless(root: Path, bounds: Bounds = _UNBOUNDED, take_out: Callable[[Path], None] = remove_tree) -> Snapshot:
    """Leave only folders and regular files of this folder alone, all of them readable by us, within `bounds`.

    Bytecode goes, too: Python would run it in place of a source that says something else. Of more than fits the largest
    files go first, of equal ones by name. Raises `CrowdedError` at the first entry too many.
    """
    snapshot = Snapshot(root)
    files: dict[tuple[int, int], list[str]] = {}
    sizes: dict[str, int] = {}
    pending, count = [str(root)], 0
    while pending:
        folder = pending.pop()
        os.chmod(folder, 0o755)
        entries = []
        with os.scandir(folder) as found:
            for entry in found:
                count += 1
                if count > bounds.entries:
                    raise CrowdedError
                entries.append(entry)
        for entry in entries:
            info = entry.stat(follow_symlinks=False)
            if not _is_sound(entry, info, root):
                _drop(entry, snapshot, take_out)
            elif stat.S_ISREG(info.st_mode):
                files.setdefault((info.st_dev, info.st_ino), []).append(entry.path)
                sizes[entry.path] = max(info.st_size, info.st_blocks * 512)
            elif entry.name == _CACHE:
                take_out(Path(entry.path))
            else:
                pending.append(entry.path)
    gone = _take_out_largest(snapshot, sizes, bounds.size, take_out)
    for names in files.values():
        kept = [name for name in names if name not in gone]
        snapshot.files += len(kept)
        if kept:
            _own(kept)
    return snapshot


def _take_out_largest(
    snapshot: Snapshot, sizes: dict[str, int], most: int, take_out: Callable[[Path], None]
) -> set[str]:
    """Take files out until the rest fits."""
    total = held = sum(sizes.values())
    gone = []
    for name in sorted(sizes, key=lambda it: (-sizes[it], it)) if total > most else ():
        if held <= most:
            break
        held -= sizes[name]
        gone.append(name)
        take_out(Path(name))
    if gone:
        named = ", ".join(ascii(os.path.relpath(name, snapshot.folder))[:100] for name in gone[:_MAX_NAMED])
        limit = f"{total >> 20:,} MiB, {most >> 20:,} MiB are the limit"
        snapshot.too_large = f"{limit}: the {len(gone)} largest files were taken out: {named}"
    return set(gone)


def _is_sound(entry: os.DirEntry[str], info: os.stat_result, root: Path) -> bool:
    try:
        length = len(entry.path.encode("utf-8")) - len(str(root))
    except UnicodeEncodeError:
        return False
    return length <= MAX_PATH and (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode))


def _drop(entry: os.DirEntry[str], snapshot: Snapshot, take_out: Callable[[Path], None]) -> None:
    noted = snapshot.links if entry.is_symlink() else snapshot.dropped
    if len(noted) < _MAX_NOTED:
        name = os.path.relpath(entry.path, snapshot.folder)
        noted.append(name.encode("utf-8", "backslashreplace").decode())
    take_out(Path(entry.path))


def _own(names: list[str]) -> None:
    """Make the file of these names readable, and free of names elsewhere through which it could still change."""
    first = names[0]
    info = os.lstat(first)
    if info.st_nlink > len(names):
        # Under a name that cannot be foreseen: the agent could have put a link there, to have us write through it.
        descriptor, copy = tempfile.mkstemp(dir=os.path.dirname(first))
        os.close(descriptor)
        shutil.copyfile(first, copy, follow_symlinks=False)
        os.replace(copy, first)
        for name in names[1:]:
            os.unlink(name)
            os.link(first, name)
    os.chmod(first, 0o755 if info.st_mode & stat.S_IXUSR else 0o644)


def _is_plain(path: Path, root: Path) -> bool:
    """A regular file whose parents below `root` are all real folders."""
    parents = list(path.relative_to(root).parents)[:-1]
    return all((root / parent).is_dir() for parent in parents) and path.is_file()


def _restore(original: Path, place: Path, root: Path) -> None:
    for parent in reversed(list(place.relative_to(root).parents)[:-1]):
        if (root / parent).is_file():
            (root / parent).unlink()
        (root / parent).mkdir(exist_ok=True)
    remove_tree(place)
    shutil.copy(original, place)
