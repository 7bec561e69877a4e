"""The only folder an agent may write: made fresh for each trial, and made harmless afterwards."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.base.errors import InfraError
from bench.base.files import lay_over, sha256_file, walk_files, write_atomic
from bench.cell.context import CellContext
from bench.cell.services import running_services
from bench.cell.start_state import StartState, prepare_start
from bench.formats.plan import Cell
from bench.guest.trees import remove_tree
from bench.judge import Grading, Submission, grade_submission

_MAX_NOTED = 200
_MAX_PATH = 1000
"""Bytes of a path in the workspace; the system takes 4,096, including the runner's own path before it."""
_CACHE = "__pycache__"
_COMPILED = (".so", ".pyd", ".pyc")
_MAX_LISTED = 2000


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


@dataclass(frozen=True)
class CellFolder:
    """The folder of one cell at work: prepared for an agent or a person, then made a snapshot, then judged.

    The phases of every cell, also of those that only prove a case or that a person solves.
    """

    cell: Cell
    context: CellContext
    start: StartState
    path: Path

    @classmethod
    def prepare(cls, cell: Cell, context: CellContext, path: Path) -> CellFolder:
        """Make a fresh copy of the start of the trial in the new folder `path`."""
        made = cls.of(cell, context, path)
        made.journals.mkdir(parents=True)
        made.workspace.mkdir()
        lay_over(made.start.workspace, made.workspace)
        return made

    @classmethod
    def of(cls, cell: Cell, context: CellContext, path: Path) -> CellFolder:
        """The folder `path` as it is."""
        start = prepare_start(cell.case, cell.profile, context.data_seed(cell), context.start_cache(cell))
        return cls(cell, context, start, path)

    @property
    def workspace(self) -> Path:
        return self.path / "workspace"

    @property
    def journals(self) -> Path:
        """What the case's services write down."""
        return self.path / "journals"

    def running_services(self, sockets: Path) -> AbstractContextManager[dict[str, Path]]:
        """Run the case's services, with their sockets in a folder of a short path; yields the sockets by name."""
        case, seed = self.cell.case, self.context.data_seed(self.cell)
        names = sorted(case.spec.services)
        return running_services(case.part("services.py"), names, self.start.hidden, self.journals, sockets, seed)

    def take_snapshot(self) -> Snapshot:
        """Make the finished workspace harmless in place."""
        return take_snapshot(self.workspace, self.start.workspace, self.cell.case.spec.protected)

    def judge(self) -> Grading:
        """Judge the snapshot; raises `InfraError` when a check of the case is broken."""
        grading = grade_submission(self.cell.case, self.submission())
        if grading.broken:
            raise InfraError("judge_error", f"a check of case {self.cell.case.id} is broken: {grading.broken}")
        return grading

    def submission(self, hostile: bool = False) -> Submission:
        return Submission(
            snapshot=self.workspace,
            original=self.start.workspace,
            hidden=self.start.hidden,
            journals=self.journals,
            profile=self.cell.profile,
            sandbox=self.context.sandbox.name,
            scratch=self.context.socket_folder(self.cell),
            hostile=hostile,
            run=self.context.provenance.run,
            cell=self.cell.id,
        )


def take_snapshot(workspace: Path, start: Path, protected: list[str]) -> Snapshot:
    """Make the finished workspace harmless in place: no process runs in it any more, so nothing must be copied."""
    snapshot = make_harmless(workspace)
    for name in protected:
        original, present = start / name, workspace / name
        if not original.is_file():
            continue
        if not _is_plain(present, workspace) or sha256_file(present) != sha256_file(original):
            snapshot.tampered.append(name)
            _restore(original, present, workspace)
        for shadow in list(_shadows(present)):
            place = shadow.relative_to(workspace)
            if not (start / place).exists():
                snapshot.tampered.append(str(place))
                remove_tree(shadow)
    return snapshot


def make_harmless(root: Path) -> Snapshot:
    """Leave only folders and regular files of this folder alone, all of them readable by us.

    Bytecode goes, too: Python would run it in place of a source that says something else.
    """
    snapshot = Snapshot(root)
    files: dict[tuple[int, int], list[str]] = {}
    pending = [str(root)]
    while pending:
        folder = pending.pop()
        os.chmod(folder, 0o755)
        with os.scandir(folder) as found:
            entries = list(found)
        for entry in entries:
            info = entry.stat(follow_symlinks=False)
            if not _is_sound(entry, info, root):
                _drop(entry, root, snapshot)
            elif stat.S_ISREG(info.st_mode):
                snapshot.files += 1
                files.setdefault((info.st_dev, info.st_ino), []).append(entry.path)
            elif entry.name == _CACHE:
                remove_tree(Path(entry.path))
            else:
                pending.append(entry.path)
    for names in files.values():
        _own(names)
    return snapshot


def _is_sound(entry: os.DirEntry[str], info: os.stat_result, root: Path) -> bool:
    try:
        length = len(entry.path.encode("utf-8")) - len(str(root))
    except UnicodeEncodeError:
        return False
    return length <= _MAX_PATH and (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode))


def _drop(entry: os.DirEntry[str], root: Path, snapshot: Snapshot) -> None:
    noted = snapshot.links if entry.is_symlink() else snapshot.dropped
    if len(noted) < _MAX_NOTED:
        name = os.path.relpath(entry.path, root)
        noted.append(name.encode("utf-8", "backslashreplace").decode())
    remove_tree(Path(entry.path))


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


def _shadows(place: Path) -> Iterator[Path]:
    """What Python would import in place of the module at `place`."""
    if place.suffix != ".py":
        return
    for path in place.parent.iterdir():
        if path.name == place.stem and path.is_dir():
            yield from [path] * any(path.glob("__init__.*"))
        elif path.name.startswith(f"{place.stem}.") and path.suffix in _COMPILED:
            yield path


@dataclass(frozen=True)
class File:
    """A regular file by content."""

    size: int
    digest: str
    executable: bool


def inventory(root: Path) -> dict[str, File]:
    """Every regular file below `root` by its relative path; caches of bytecode are left out."""
    found = {}
    for name, entry in walk_files(root):
        if entry.is_file(follow_symlinks=False):
            info = entry.stat(follow_symlinks=False)
            found[name] = File(info.st_size, sha256_file(Path(entry.path)), bool(info.st_mode & 0o100))
    return found


def keep_inventory(start: Path, snapshot: Snapshot, place: Path) -> bool:
    """Write both inventories and their difference to `place`; returns whether anything differs.

    The second one is of the snapshot: protected files are restored there already, so what was done to them is named
    under `tampered`. Of many files the first in order are listed and all are counted.
    """
    before, after = inventory(start), inventory(snapshot.folder)
    differences = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in before and after[name] != before[name]],
    }
    counted = {"before": before, "after": after, **differences}
    document = {
        "schema": 1,
        "counts": {kind: len(names) for kind, names in counted.items()},
        **{kind: names[:_MAX_LISTED] for kind, names in differences.items()},
        "tampered": snapshot.tampered[:_MAX_LISTED],
        "dropped": snapshot.dropped,
        "links": snapshot.links,
        "before": _listed(before),
        "after": _listed(after),
    }
    write_atomic(place, json.dumps(document, indent=1).encode() + b"\n")
    return any(differences.values())


def _listed(files: dict[str, File]) -> dict[str, dict[str, object]]:
    return {name: asdict(files[name]) for name in list(files)[:_MAX_LISTED]}
