"""The interpreter of the first process for images that have none, or that nobody here knows.

A copy of this machine's own with the libraries and the loader that it needs: it starts in any image of the same kind of
processor, also in one without a C library, and runs nothing of the image.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import InfraError
from bench.base.files import lock, sha256_bytes
from bench.base.install import find_data_folders
from bench.guest.trees import remove_tree

GUEST_PYTHON = "/run/bench/python"
"""Where the copy lies in the guest."""
_LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3"})
_NOT_NEEDED = re.compile(r"(_tkinter|_dbm|_gdbm|readline|_curses|_test|_xxtest|xx|_ctypes_test|nis|_sqlite3)")
"""Modules with libraries of their own that no first process asks for."""
_LOADER = "loader"


@dataclass(frozen=True)
class GuestPython:
    """The copy, and how it is started in the guest."""

    folder: Path
    command: Sequence[str]


def guest_python() -> GuestPython:
    """The copy of the interpreter that runs this; made on first use, and again for another interpreter.

    Raises `InfraError` where the libraries cannot be told.
    """
    program = Path(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))
    info = program.stat()
    mark = sha256_bytes(f"1\0{program}\0{sys.version}\0{info.st_size}\0{info.st_mtime_ns}".encode())[7:23]
    place = find_data_folders().cache / "guest-python" / mark
    with lock(place.with_name(f".{mark}.lock")):
        if not place.is_dir():
            fresh = place.with_name(f".{mark}.new")
            remove_tree(fresh)
            _copy(program, fresh)
            fresh.rename(place)
    return GuestPython(place, _command(place))


def _command(place: Path) -> list[str]:
    """Through the copied loader, which takes libraries from the copy alone: not by the image's cache, nor by the paths
    that the programs themselves name."""
    own = [GUEST_PYTHON + str(path).removeprefix(str(place)) for path in sorted(place.rglob("*.so*"))]
    loader = [f"{GUEST_PYTHON}/{_LOADER}", "--inhibit-cache", "--inhibit-rpath", ":".join(["", *own])]
    program = f"{GUEST_PYTHON}/bin/{_versioned()}"
    return [*loader, "--library-path", f"{GUEST_PYTHON}/libraries", program, "-I", "-S", "-B"]


def _versioned() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _copy(program: Path, fresh: Path) -> None:
    """Make the copy in the new folder `fresh`."""
    standard = Path(sysconfig.get_path("stdlib"))
    library = fresh / "lib" / _versioned()
    shutil.copytree(standard, library, ignore=_ignored, symlinks=False)
    for name in ("bin", "libraries"):
        (fresh / name).mkdir(parents=True)
    shutil.copy2(program, fresh / "bin" / _versioned())
    modules = [path for path in (library / "lib-dynload").glob("*.so") if not _NOT_NEEDED.match(path.name)]
    for path in (library / "lib-dynload").glob("*.so"):
        if path not in modules:
            path.unlink()
    libraries, loader = _needed([program, *modules])
    for path in libraries:
        shutil.copy2(os.path.realpath(path), fresh / "libraries" / path.name)
    shutil.copy2(os.path.realpath(loader), fresh / _LOADER)
    # The job's user is another one, and the cache may be for this user alone.
    for path in [fresh, *fresh.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" or path.name == _LOADER else 0o644)


def _ignored(folder: str, names: list[str]) -> set[str]:
    del folder
    return {name for name in names if name in _LEFT_OUT or name.startswith("config-")}


def _needed(programs: Iterable[Path]) -> tuple[list[Path], Path]:
    """The libraries of these programs by the names under which they are asked for, and their loader."""
    libraries: dict[str, Path] = {}
    loader: Path | None = None
    for program in programs:
        done = subprocess.run(
            ["ldd", str(program)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        for line in done.stdout.splitlines():
            name, arrow, path = line.strip().partition(" => ")
            if arrow and path.startswith("/"):
                libraries.setdefault(name, Path(path.split(" (")[0]))
            elif not arrow and name.startswith("/"):
                loader = Path(name.split(" (")[0])
    if loader is None or not libraries:
        fault = "an agent's own image needs a copy of this machine's Python, and ldd does not tell its libraries"
        raise InfraError("sandbox_error", fault)
    return list(libraries.values()), loader
