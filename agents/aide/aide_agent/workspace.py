"""A private copy of the workspace for each attempt, and the export of the best attempt's files."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

_NOT_KEPT = frozenset({"__pycache__"})


@dataclass(frozen=True)
class Entry:
    """What is compared of a file, folder or link. Copies keep the time of change, so equal entries are equal files."""

    kind: str
    mode: int
    size: int = 0
    changed_ns: int = 0
    target: str = ""


Listing: TypeAlias = dict[str, Entry]


@dataclass(frozen=True)
class Result:
    """What an attempt left: all names, and a folder with those files that differ from the start."""

    listing: Listing
    changed: frozenset[str]
    folder: Path

    def differences(self, start: Listing) -> list[str]:
        """The names of files that were made, changed or deleted, and how."""
        made = {name: "changed" if name in start else "made" for name in self.changed}
        gone = {name: "deleted" for name in start if name not in self.listing}
        kinds = {**start, **self.listing}
        told = {name: how for name, how in {**made, **gone}.items() if kinds[name].kind != "folder"}
        return [f"{name} ({how})" for name, how in sorted(told.items())]


class Workspaces:
    """The real workspace, its state at the start, and the copies."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self._root = root
        self._scratch = scratch
        self._pristine = scratch / "start"
        _copy_tree(root, self._pristine)
        self._start = listing_of(self._pristine)

    def differences(self, result: Result) -> list[str]:
        return result.differences(self._start)

    @property
    def start(self) -> Path:
        """The workspace as it was given, for looking at only."""
        return self._pristine

    def fresh(self, number: int) -> Path:
        """A new copy of the workspace as it was given."""
        copy = self._scratch / f"attempt-{number}"
        _copy_tree(self._pristine, copy)
        return copy

    def keep(self, copy: Path, number: int, without: str | None) -> Result:
        """Put away what the attempt changed in `copy`, `without` the file that is no part of it; ends `copy`."""
        if without is not None:
            (copy / without).unlink(missing_ok=True)
        listing = listing_of(copy)
        changed = frozenset(name for name, entry in listing.items() if self._start.get(name) != entry)
        folder = self._scratch / f"result-{number}"
        folder.mkdir()
        for name in sorted(changed):
            if listing[name].kind != "folder":
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.rename(copy / name, folder / name)
        _discard(copy)
        return Result(listing, changed, folder)

    def forget(self, result: Result) -> None:
        _discard(result.folder)

    def settle(self, result: Result | None) -> list[str]:
        """Make the real workspace that of `result`, or of the start; returns the names that were touched.

        Scripts may have written to it by an absolute path, so everything is compared and not only `result`.
        """
        wanted = self._start if result is None else result.listing
        there = listing_of(self._root)
        touched = []
        for name in sorted(there, reverse=True):
            if name not in wanted or wanted[name].kind != there[name].kind:
                _remove(self._root / name)
                touched.append(name)
                del there[name]
        for name in sorted(wanted):
            if there.get(name) != wanted[name]:
                kept = result is not None and name in result.changed
                source = result.folder if result is not None and kept else self._pristine
                _place(source / name, self._root / name, wanted[name])
                touched.append(name)
        return touched

    def close(self) -> None:
        _discard(self._scratch)


def listing_of(root: Path) -> Listing:
    """Everything below `root` that can be kept: files, folders and links."""
    found: Listing = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _NOT_KEPT]
        for name in [*names, *files]:
            path = Path(folder, name)
            entry = _entry(path)
            if entry is not None:
                found[str(path.relative_to(root))] = entry
    return found


def _entry(path: Path) -> Entry | None:
    facts = path.lstat()
    mode = stat.S_IMODE(facts.st_mode)
    if stat.S_ISLNK(facts.st_mode):
        return Entry("link", 0, target=os.readlink(path))
    if stat.S_ISDIR(facts.st_mode):
        return Entry("folder", mode)
    if stat.S_ISREG(facts.st_mode):
        return Entry("file", mode, facts.st_size, facts.st_mtime_ns)
    return None


def _place(source: Path, target: Path, entry: Entry) -> None:
    if entry.kind == "folder":
        target.mkdir(exist_ok=True)
        target.chmod(entry.mode | stat.S_IRWXU)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place: a kill in the middle leaves the old file or the new one, never half of it.
    new = target.with_name(f".{target.name[:100]}.aide-new")
    _remove(new)
    shutil.copy2(source, new, follow_symlinks=False)
    os.replace(new, target)


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, ignore=_special)
    for path in [target, *target.rglob("*")]:
        # What a script may not change it could not build upon, and we could not remove it.
        if path.is_dir() and not path.is_symlink():
            path.chmod(stat.S_IMODE(path.lstat().st_mode) | stat.S_IRWXU)


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes, sockets and devices cannot be copied; caches need not be."""
    return [name for name in names if name in _NOT_KEPT or _entry(Path(folder, name)) is None]


def _discard(path: Path) -> None:
    """Remove what nobody needs any more. A script may have dug deeper than Python can follow, but not than `rm`."""
    try:
        _remove(path)
    except (OSError, RecursionError):
        subprocess.run(["rm", "-rf", "--", str(path)], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, names, _ in os.walk(path):
        for place in [folder, *(os.path.join(folder, name) for name in names)]:
            if not os.path.islink(place):
                os.chmod(place, stat.S_IRWXU)
    shutil.rmtree(path)
