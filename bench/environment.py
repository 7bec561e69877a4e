"""The interpreter of an agent: the benchmark's own, or a virtual environment built once per content digest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.agent import Agent, Environment
from bench.errors import InfraError, UserError
from bench.files import remove_tree, sha256_bytes

_INSTALL_S = 1800


def agent_python(agent: Agent, cache: Path) -> Path:
    """The interpreter to start `agent` with; builds its environment on first use.

    Raises `UserError` when the wanted Python is not on this machine, `InfraError` when packages do not install.
    """
    wanted = agent.spec.environment
    if not wanted.python and not wanted.requirements:
        return Path(sys.executable)
    base = _interpreter(wanted.python, agent.folder / "agent.yaml")
    requirements = (agent.folder / wanted.requirements).read_bytes() if wanted.requirements else b""
    digest = sha256_bytes(f"{base}\0".encode() + requirements)[7:23]
    place = cache / "environments" / f"{agent.id}-{digest}"
    if not (place / "complete").is_file():
        _build(place, base, agent, wanted)
    return place / "bin" / "python"


def _interpreter(version: str, where: Path) -> Path:
    if not version or f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return Path(sys.executable)
    found = shutil.which(f"python{version}")
    if found is None and (uv := shutil.which("uv")) is not None:
        done = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        found = done.stdout.strip() if done.returncode == 0 else None
    if found is None:
        raise UserError(
            f"field `environment.python`: no Python {version} here",
            where=where,
            remedy=f"install it, for example with `uv python install {version}` or pyenv",
        )
    return Path(found)


def _build(place: Path, base: Path, agent: Agent, wanted: Environment) -> None:
    """A virtual environment does not survive a move, so it is built in place and marked when complete."""
    remove_tree(place)
    place.mkdir(parents=True)
    commands = [[str(base), "-m", "venv", str(place)]]
    if wanted.requirements:
        requirements = str(agent.folder / wanted.requirements)
        commands.append(
            [
                str(place / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--requirement",
                requirements,
            ]
        )
    env = {**os.environ, "PIP_NO_INPUT": "1"}
    with tempfile.TemporaryFile() as log:
        for command in commands:
            try:
                code = subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, timeout=_INSTALL_S, check=False
                ).returncode
            except subprocess.TimeoutExpired:
                code = -1
            if code != 0:
                log.seek(0)
                text = log.read()[-1500:].decode("utf-8", "replace").strip()
                remove_tree(place)
                raise InfraError("environment_error", f"the environment of agent {agent.id} could not be built: {text}")
    (place / "complete").touch()
