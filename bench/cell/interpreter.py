"""Finding a Python of a wanted version on this machine: on PATH, with uv, with pyenv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError
from bench.guest.trees import remove_tree

_ANSWER_S = 60
# A shim of pyenv, a link of uv, the python of some virtual environment: what counts is the installation behind it.
_QUESTION = """
import json, os, sys
try:
    import ensurepip, venv
    able = True
except ImportError:
    able = False
base = getattr(sys, "_base_executable", "") or sys.executable
print(json.dumps([os.path.realpath(base), ".".join(map(str, sys.version_info[:3])), able]))
"""


@dataclass(frozen=True)
class Interpreter:
    """An installed Python that can make virtual environments."""

    path: Path
    """Of the program itself, through all links and shims."""
    version: str
    """With three parts, such as 3.12.1."""
    able: bool
    """Whether it can make virtual environments."""

    def stand_in(self, environment: Path) -> None:
        """Be the interpreter of a virtual environment, with this standard library, whatever was written there."""
        programs = environment / "bin"
        if programs.is_symlink() or not programs.is_dir():
            remove_tree(programs)
            programs.mkdir()
        for name in ("python", "python3", f"python{'.'.join(self.version.split('.')[:2])}"):
            remove_tree(programs / name)
            (programs / name).symlink_to(self.path)
        facts = {"home": self.path.parent, "include-system-site-packages": "false", "version": self.version}
        remove_tree(environment / "pyvenv.cfg")
        (environment / "pyvenv.cfg").write_text("".join(f"{name} = {value}\n" for name, value in facts.items()))
        (environment / "pyvenv.cfg").chmod(0o644)


def find_interpreter(version: str, where: Path) -> Interpreter:
    """An interpreter of `version` (3.12 or 3.12.1); raises `UserError` with the remedy when there is none.

    where: the file that asks for it.
    """
    lame: list[Path] = []
    for candidate in _candidates(version):
        found = _ask(candidate)
        if found is None or not f"{found.version}.".startswith(f"{version}."):
            continue
        if found.able:
            return found
        lame.append(candidate)
    if lame:
        raise UserError(
            f"field `environment.python`: {lame[0]} cannot make virtual environments",
            where=where,
            remedy=f"apt-get install python{version}-venv, or `uv python install {version}`",
        )
    raise UserError(
        f"field `environment.python`: no Python {version} on PATH, with uv or with pyenv",
        where=where,
        remedy=f"`uv python install {version}` or `pyenv install {version}`",
    )


def own_interpreter(where: Path) -> Interpreter:
    """The installation behind the interpreter that runs the benchmark."""
    found = _ask(Path(sys.executable))
    if found is None or not found.able:
        raise UserError(
            f"field `environment.requirements`: {sys.executable} cannot make virtual environments",
            where=where,
            remedy="apt-get install python3-venv, or run the benchmark with a Python that has venv and ensurepip",
        )
    return found


def _candidates(version: str) -> Iterator[Path]:
    """Places to look, cheapest first; what is there may be something else."""
    if f"{'.'.join(map(str, sys.version_info[:3]))}.".startswith(f"{version}."):
        yield Path(sys.executable)
    minor = ".".join(version.split(".")[:2])
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = shutil.which(f"python{minor}")
    # pyenv's shim is a script that fails unless that version is switched on; its versions are looked at below.
    if found is not None and not Path(found).is_relative_to(pyenv / "shims"):
        yield Path(found).absolute()
    uv = shutil.which("uv")
    if uv is not None and (named := _answer([uv, "python", "find", "--no-python-downloads", version]).strip()):
        yield Path(named)
    folders = [path for path in (pyenv / "versions").glob(f"{version}*") if (path / "bin" / "python").exists()]
    for folder in sorted(folders, key=_as_numbers, reverse=True):
        yield folder / "bin" / "python"


def _as_numbers(folder: Path) -> list[int]:
    """3.12.10 is newer than 3.12.9."""
    return [int(part) if part.isdigit() else -1 for part in folder.name.split(".")]


def _ask(candidate: Path) -> Interpreter | None:
    """What `candidate` is; None when it does not start."""
    try:
        path, version, able = json.loads(_answer([str(candidate), "-I", "-S", "-c", _QUESTION]))
    except ValueError:
        return None
    return Interpreter(Path(path), version, able)


def _answer(command: list[str]) -> str:
    """What a program says on standard output; empty when it fails."""
    try:
        # From a folder in which no file asks uv for another version.
        done = subprocess.run(
            command, cwd="/", capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout if done.returncode == 0 else ""
