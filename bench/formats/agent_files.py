"""Which files below an agent's folder are the agent: these are digested, copied and mounted, and no others.

Where git keeps the folder: what git tracks, and what it neither tracks nor ignores. Elsewhere everything. In both cases
without what the lists of this module name; a description may include folders of installed packages by their names.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path, PurePosixPath

from bench.base.errors import UserError
from bench.base.files import sha256_file, walk_files
from bench.base.foreign_git import kept_names

CASSETTES = "cassettes"
"""Replayed conversations show how a case is solved: the gateway reads them, the agent never."""
SECRET = (
    *(".git", ".hg", ".svn", ".env*", ".ssh", ".aws", ".azure", ".gcloud", ".gnupg", ".kube", ".docker"),
    *(
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        ".git-credentials",
        ".vault-token",
        ".terraform",
        "*.tfstate*",
    ),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.jks"),
    *("*.keystore", "*.kdbx", ".bash_history", ".zsh_history", ".python_history"),
)
"""Patterns of names, in any case of letters, at any depth: what holds keys, tokens or history."""
INSTALLED = ("__pycache__", ".venv", "node_modules", ".tox", ".nox", ".direnv", ".ipynb_checkpoints", ".DS_Store")
"""What tools put into a folder, at any depth."""
RESULTS = ("runs", CASSETTES)
"""At the top of the folder."""
# A virtual environment, a cache (https://bford.info/cachedir/), the folder of a run, a case with its answers.
_MARKS = (("pyvenv.cfg",), ("CACHEDIR.TAG",), ("run.json", "cells"), ("case.yaml", "check.py"))
_CERTIFICATES = (b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY")
_MAX_CERTIFICATES = 4 << 20
_MAX_FILES = 100_000
_MAX_BYTES = 4 << 30
_MAX_DEPTH = 64
_MAX_NESTED = 3
_MAX_NAMED = 200


@dataclass(frozen=True)
class AgentFiles:
    """The files below a folder that are the agent."""

    folder: Path
    names: tuple[str, ...]
    """Relative paths of regular files, and of links that stay within the folder; sorted."""
    left_out: tuple[str, ...]
    """Relative paths of the rest, at most 200; a folder none of whose files is the agent's ends with a slash."""
    count_left_out: int

    @property
    def paths(self) -> dict[str, Path]:
        """The files by their relative paths."""
        return {name: self.folder / name for name in self.names}

    def copy(self, target: Path, *, writable: bool = False) -> None:
        """Copy the files below `target`; what is executable stays so, and nothing else of their modes."""
        target.mkdir(parents=True, exist_ok=True)
        for name, path in self.paths.items():
            place = target / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place, follow_symlinks=False)
            if not place.is_symlink():
                mode = 0o755 if os.lstat(path).st_mode & stat.S_IXUSR else 0o644
                place.chmod(mode if writable else mode & 0o555)


def agent_files(folder: Path, description: str = "", include: Sequence[str] = ()) -> AgentFiles:
    """The files of the agent in `folder`; raises `UserError` where they are too many or git cannot list them.

    description: name of the agent's own file, which belongs to it whatever git says. include: folders such as
    `node_modules` that belong to it although git ignores them or tools made them.
    """
    choice = _Choice(folder, tuple(include))
    names, size = set[str](), 0
    for name in chain(choice.candidates(), [description]):
        if name in names or not choice.is_taken(name):
            continue
        names.add(name)
        size += os.lstat(folder / name).st_size
        if len(names) > _MAX_FILES or size > _MAX_BYTES:
            fault = f"the agent has more than {_MAX_FILES:,} files or {_MAX_BYTES >> 30} GiB"
            remedy = "have git ignore what the agent does not need, or move it to another folder"
            raise UserError(fault, where=folder, remedy=remedy)
    named, count = [], 0
    for name in _rest(folder, names):
        count += 1
        if count <= _MAX_NAMED:
            named.append(name)
    return AgentFiles(folder, tuple(sorted(names)), tuple(named), count)


def digest_files(paths: Mapping[str, Path]) -> str:
    """One digest over names, executable bits and contents of files, and over the targets of links."""
    digest = hashlib.sha256()
    for name, path in sorted(paths.items()):
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            line = f"{name}\0link\0{os.readlink(path)}\n"
        else:
            line = f"{name}\0{int(bool(mode & stat.S_IXUSR))}\0{sha256_file(path)}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return f"sha256:{digest.hexdigest()}"


def regular_files(folder: Path, prefix: str = "") -> dict[str, Path]:
    """All regular files and links below `folder` by their relative paths after `prefix`."""
    found = walk_files(folder, skip=frozenset())
    return {f"{prefix}{name}": Path(entry.path) for name, entry in found if _is_kept_kind(entry)}


def linked_cassette(folder: Path) -> str:
    """The first link among the cassettes of the agent in `folder`; empty where there is none.

    Cassettes are read from outside the sandbox, where a link could lead anywhere; and a digest holds where it leads,
    not what lies there.
    """
    top = folder / CASSETTES
    if top.is_symlink():
        return CASSETTES
    return next((f"{CASSETTES}/{name}" for name, entry in walk_files(top, skip=frozenset()) if entry.is_symlink()), "")


def _is_kept_kind(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_symlink()


@dataclass
class _Choice:
    """Decides of each name, and remembers what it decided of folders."""

    folder: Path
    include: tuple[str, ...]
    _folders: dict[str, bool] = field(default_factory=dict)

    def candidates(self) -> Iterator[str]:
        """What may be the agent's, by git where it keeps the folder."""
        yield from self._kept("", _MAX_NESTED)
        for name in self.include:
            yield from self._everything(name)

    def _kept(self, prefix: str, nested: int) -> Iterator[str]:
        names = kept_names(self.folder / prefix)
        if names is None or (not names and not os.path.lexists(self.folder / prefix / ".git")):
            # A repository around this folder that ignores all of it does not keep it.
            yield from self._everything(prefix.removesuffix("/"))
            return
        for name in names:
            path = f"{prefix}{name.removesuffix('/')}"
            if not _is_plain(path) or not os.path.isdir(self.folder / path) or os.path.islink(self.folder / path):
                yield path
            elif nested and self._is_taken_folder(path) and os.path.lexists(self.folder / path / ".git"):
                # A repository inside this one, or a module of it: by the same rule.
                yield from self._kept(f"{path}/", nested - 1)

    def _everything(self, top: str) -> Iterator[str]:
        pending = [top] if not top or self._is_taken_folder(top) else []
        while pending:
            prefix = pending.pop()
            for entry in _entries(self.folder / prefix):
                name = f"{prefix}/{entry.name}" if prefix else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield name
                elif name.count("/") < _MAX_DEPTH and self._is_taken_folder(name):
                    pending.append(name)

    def is_taken(self, name: str) -> bool:
        """Whether the file is the agent's. Nothing in the name is believed: git's index may be a stranger's."""
        if not _is_plain(name) or self._is_named(name):
            return False
        parent = name.rpartition("/")[0]
        if parent and not self._is_taken_folder(parent):
            return False
        path = self.folder / name
        try:
            mode = os.lstat(path).st_mode
        except (OSError, ValueError):
            return False
        return stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and _stays_within(name, os.readlink(path)))

    def _is_taken_folder(self, name: str) -> bool:
        if name not in self._folders:
            parent = name.rpartition("/")[0]
            self._folders[name] = (not parent or self._is_taken_folder(parent)) and self._is_sound_folder(name)
        return self._folders[name]

    def _is_sound_folder(self, name: str) -> bool:
        path = self.folder / name
        if self._is_named(name) or path.is_symlink() or not path.is_dir():
            return False
        return self._is_included(name) or not any(all((path / it).exists() for it in marks) for marks in _MARKS)

    def _is_named(self, name: str) -> bool:
        """Whether its own name is on a list."""
        last = name.rpartition("/")[2].lower()
        if any(fnmatchcase(last, pattern) for pattern in SECRET):
            return not (last.endswith(".pem") and _holds_certificates(self.folder / name))
        if name.lower() in RESULTS:
            return True
        return last in {it.lower() for it in INSTALLED} and not self._is_included(name)

    def _is_included(self, name: str) -> bool:
        return any(name == it or name.startswith(f"{it}/") for it in self.include)


def _is_plain(name: str) -> bool:
    """A relative path whose parts are names."""
    return bool(name) and "\0" not in name and not name.startswith("/") and not {"", ".", ".."} & set(name.split("/"))


def _stays_within(name: str, target: str) -> bool:
    """Whether a link leads to a place below the folder, by what it says."""
    if target.startswith("/"):
        return False
    depth = len(PurePosixPath(name).parts) - 1
    for part in target.split("/"):
        depth += -1 if part == ".." else int(part not in ("", "."))
        if depth < 0:
            return False
    return True


def _holds_certificates(path: Path) -> bool:
    """A file of certificates alone, such as those that packages of Python bring along."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read(_MAX_CERTIFICATES + 1)
    except OSError:
        return False
    return len(data) <= _MAX_CERTIFICATES and _CERTIFICATES[0] in data and _CERTIFICATES[1] not in data


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in `folder`, sorted; nothing in one that the user of the runner may not read."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except PermissionError:
        return []


def _rest(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """What is below `folder` besides `names`; a folder that holds none of them is named as a whole."""
    taken = set(names)
    parents = {str(parent) for name in taken for parent in PurePosixPath(name).parents}
    pending = [""]
    while pending:
        prefix = pending.pop()
        for entry in _entries(folder / prefix):
            name = f"{prefix}{entry.name}"
            if not entry.is_dir(follow_symlinks=False):
                if name not in taken:
                    yield name
            elif name in parents:
                pending.append(f"{name}/")
            else:
                yield f"{name}/"
