"""Finding a Python of a wanted version on this machine: on PATH, with uv, with pyenv."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.base.child import log_tail
from bench.base.errors import InfraError, UserError
from bench.base.files import lock, sha256_bytes
from bench.formats.agent import Agent
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
_INSTALL_S = 1800
_REFERENCE = re.compile(rb"^\s*(?:-r|-c|--requirement|--constraint)[ =]?\s*(\S+)", re.MULTILINE)
# The build scripts of packages are strangers' code, and a Python's settings belong to that Python.
_WITHHELD = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|^PYTHON|^VIRTUAL_ENV")
_LOCAL = re.compile(rb"^\s*(?:-e\b|--editable\b|\.|/|file:|[^#\n]*@\s*file:)", re.MULTILINE)


@dataclass(frozen=True)
class Interpreter:
    """An installed Python that can make virtual environments."""

    path: Path
    """Of the program itself, through all links and shims."""
    version: str
    """With three parts, such as 3.12.1."""
    able: bool
    """Whether it can make virtual environments."""


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


def agent_python(agent: Agent, cache: Path) -> Path:
    """The interpreter of `agent`'s own packages; builds its environment on first use.

    A second caller waits for the first, in this process or another. Raises `UserError` when the wanted
    Python is not on this machine, `InfraError` when packages do not install.
    """
    wanted = agent.spec.environment
    if not wanted.python and not wanted.requirements:
        return Path(sys.executable)
    where = agent.folder / "agent.yaml"
    base = find_interpreter(wanted.python, where) if wanted.python else own_interpreter(where)
    place = cache / "environments" / f"{agent.id}-{_digest(agent, base)}"
    if _is_complete(place):
        return place / "bin" / "python"
    with lock(place.with_name(f".{place.name}.lock")) as descriptor:
        if not _is_complete(place):
            _build(place, base, agent, descriptor)
    return place / "bin" / "python"


def _digest(agent: Agent, base: Interpreter) -> str:
    """Of everything that decides what gets installed."""
    wanted = agent.spec.environment
    parts = [f"{base.path}\0{base.version}\0{platform.machine()}\0{wanted.locked}".encode()]
    if wanted.requirements:
        parts += _contents(agent.folder / wanted.requirements, set())
        if any(_LOCAL.search(part) for part in parts[1:]):
            # It installs from its own folder, so every file there counts.
            parts.append(agent.digest.encode())
    return sha256_bytes(b"\0".join(parts))[7:23]


def _contents(path: Path, seen: set[Path]) -> Iterator[bytes]:
    """The bytes of a requirements file and of those it refers to."""
    resolved = path.resolve()
    if resolved in seen:
        return
    seen.add(resolved)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, remedy="add it, or remove the line") from None
    yield content
    for name in _REFERENCE.findall(content):
        yield from _contents(path.parent / name.decode("utf-8", "replace"), seen)


def _is_complete(place: Path) -> bool:
    """Built to its end, with an interpreter that still starts: the base it links to may have been removed."""
    return (place / "complete").is_file() and (place / "bin" / "python").exists()


def _build(place: Path, base: Interpreter, agent: Agent, lock: int) -> None:
    """A virtual environment does not survive a move, so it is built in place and marked when complete."""
    remove_tree(place)
    place.mkdir(parents=True)
    try:
        for command in _commands(place, base, agent):
            _run(command, agent, lock)
    except BaseException:
        remove_tree(place)
        raise
    (place / "complete").touch()


def _commands(place: Path, base: Interpreter, agent: Agent) -> Iterator[list[str]]:
    yield [str(base.path), "-I", "-m", "venv", str(place)]
    wanted = agent.spec.environment
    if not wanted.requirements:
        return
    install = [str(place / "bin" / "python"), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if wanted.locked:
        install.append("--no-deps")
    yield [*install, "--requirement", str(agent.folder / wanted.requirements)]


def _run(command: list[str], agent: Agent, lock: int) -> None:
    env = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or not _WITHHELD.search(name)}
    with tempfile.TemporaryFile() as log:
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**env, "PIP_NO_INPUT": "1"},
                # A line such as `./wheel.whl` is meant from where the file lies.
                cwd=agent.folder,
                # The installer holds the lock, too: when the runner is killed, no other runner builds beside it.
                pass_fds=[lock],
                timeout=_INSTALL_S,
                check=False,
            ).returncode
            fault = f"status {code}"
        except subprocess.TimeoutExpired:
            code, fault = -1, f"took over {_INSTALL_S} s"
        if code != 0:
            told = f"{shlex.join(command)}: {fault}: {log_tail(log)}"
            raise InfraError("environment_error", f"the environment of agent {agent.id} could not be built: {told}")
