"""Files of the workspace: never outside it, and every change with a way back."""

from __future__ import annotations

import shutil
from pathlib import Path

from .action import ActionFault

LARGEST_READ = 5_000_000


class Files:
    def __init__(self, root: Path, backups: Path) -> None:
        self._root = root.resolve()
        self._backups = backups
        self._versions: dict[Path, list[Path | None]] = {}
        self._count = 0

    @property
    def root(self) -> Path:
        return self._root

    def path(self, name: str) -> Path:
        """The place that `name` means, links followed; outside the workspace is a fault."""
        if not name.strip() or "\x00" in name:
            raise ActionFault("a file name is missing")
        path = (self._root / name.strip()).resolve()
        if not path.is_relative_to(self._root):
            raise ActionFault(f"{name!r} lies outside the workspace")
        return path

    def shown(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    def read(self, name: str) -> str:
        path = self.path(name)
        if not path.is_file():
            raise ActionFault(f"there is no file {name!r}")
        if path.stat().st_size > LARGEST_READ:
            raise ActionFault(f"{name!r} is larger than {LARGEST_READ} bytes; look at it by a script")
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            return file.read()

    def write(self, name: str, content: str) -> None:
        path = self._prepared(name)
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(content)

    def append(self, name: str, content: str) -> None:
        path = self._prepared(name)
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write(content)

    def copy(self, source: str, destination: str) -> None:
        found = self.path(source)
        if not found.exists():
            raise ActionFault(f"there is no {source!r}")
        if found.is_dir():
            shutil.copytree(found, self.path(destination), symlinks=True, dirs_exist_ok=True)
        elif found != self.path(destination):
            shutil.copy2(found, self._prepared(destination))

    def undo(self, name: str) -> str:
        """Take back the last change made through this object; returns what the file now holds."""
        path = self.path(name)
        versions = self._versions.get(path)
        if not versions:
            raise ActionFault(f"there is no earlier version of {name!r}")
        version = versions.pop()
        if version is None:
            path.unlink(missing_ok=True)
            return ""
        shutil.copy2(version, path)
        return self.read(name)

    def listing(self, name: str) -> str:
        folder = self.path(name)
        if not folder.is_dir():
            raise ActionFault(f"there is no folder {name!r}")
        entries = sorted(folder.iterdir())
        return "\n".join(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)

    def _prepared(self, name: str) -> Path:
        """The place to write to, its content put away, its folder made."""
        path = self.path(name)
        if path.exists() and not path.is_file():
            raise ActionFault(f"{name!r} is not a regular file")
        path.parent.mkdir(parents=True, exist_ok=True)
        version = None
        if path.exists():
            # Numbered: two changes within one second, or two files of one name, must not meet.
            self._count += 1
            self._backups.mkdir(parents=True, exist_ok=True)
            version = self._backups / f"{self._count:04d}-{path.name}"
            shutil.copy2(path, version)
        self._versions.setdefault(path, []).append(version)
        return path
