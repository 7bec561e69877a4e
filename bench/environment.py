"""The environment of an agent: the benchmark's own interpreter, or a virtual environment built once per content."""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.agent import Agent
from bench.errors import InfraError, UserError
from bench.files import remove_tree, sha256_bytes
from bench.interpreter import Interpreter, find_interpreter, own_interpreter

_INSTALL_S = 1800
_REFERENCE = re.compile(rb"^\s*(?:-r|-c|--requirement|--constraint)[ =]?\s*(\S+)", re.MULTILINE)
# The build scripts of packages are strangers' code, and a Python's settings belong to that Python.
_WITHHELD = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|^PYTHON|^VIRTUAL_ENV")
_LOCAL = re.compile(rb"^\s*(?:-e\b|--editable\b|\.|/|file:|[^#\n]*@\s*file:)", re.MULTILINE)


def agent_python(agent: Agent, cache: Path) -> Path:
    """The interpreter of `agent`'s own packages; builds its environment on first use.

    Whoever comes second waits for the first, in this process or another. Raises `UserError` when the wanted
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
    with _locked(place) as lock:
        if not _is_complete(place):
            _build(place, base, agent, lock)
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


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[int]:
    """One builder at a time; yields the lock's descriptor. The file stays: removing it would let two hold it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f".{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


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
                # It holds the lock, too: when the runner is killed, nobody builds beside what goes on installing.
                pass_fds=[lock],
                timeout=_INSTALL_S,
                check=False,
            ).returncode
            fault = f"status {code}"
        except subprocess.TimeoutExpired:
            code, fault = -1, f"took over {_INSTALL_S} s"
        if code != 0:
            log.seek(0)
            text = log.read()[-1500:].decode("utf-8", "replace").strip()
            raise InfraError(
                "environment_error",
                f"the environment of agent {agent.id} could not be built: {shlex.join(command)}: {fault}: {text}",
            )
