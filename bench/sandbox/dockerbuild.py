"""Building the images that jobs in containers see: the shared one, and a case's additions to it.

Packages are fetched on this machine by pip with this machine's settings (PIP_ variables, pip.conf, certificates);
the build installs them without an index, and needs no network where the base holds the system's packages.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UserError
from bench.sandbox.dockerengine import find_engine
from bench.sandbox.dockerimage import IMAGE_VARIABLE, case_tag, definition, shared_image, shared_tag

_CASE_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
COPY requirements.txt wheels /case/
RUN /opt/bench/bin/python -m pip install --quiet --no-cache-dir --no-index --find-links /case \\
    --requirement /case/requirements.txt
"""
_PLATFORMS = ("manylinux_2_17", "manylinux2014", "manylinux_2_28", "manylinux_2_34", "manylinux_2_35", "manylinux_2_36")
"""Of wheels that run on Debian 12, whose glibc is 2.36; a wheel for an older one has the older name."""


@dataclass(frozen=True)
class Build:
    """How images are built here."""

    base: str = ""
    """Image to start from; empty: what the Dockerfile says."""
    python: str = "3.11"
    """Version of the base's Python, for which packages are fetched."""
    network: str = ""
    """Of the build's own commands: `host` where the engine's network reaches no package archive."""


def build_shared(how: Build) -> str:
    """Build the shared image; returns its content id. Raises `UserError`."""
    with _context(definition(), how) as context:
        arguments = ["--build-arg", f"BASE={how.base}"] if how.base else []
        _build(context, shared_tag(), arguments, how)
    return shared_image(find_engine())


def build_case(environment: Path, how: Build) -> str:
    """Build the image of the case whose folder `environment` this is; returns its name. Raises `UserError`."""
    shared = shared_image(find_engine())
    tag = case_tag(shared, environment)
    with _context(environment, how) as context:
        if not (context / "Dockerfile").exists():
            (context / "Dockerfile").write_text(_CASE_DOCKERFILE)
        _build(context, tag, ["--build-arg", f"BASE={os.environ.get(IMAGE_VARIABLE) or shared_tag()}"], how)
    return tag


@contextmanager
def _context(source: Path, how: Build) -> Iterator[Path]:
    """A copy of the definition with the wheels of its requirements beside it."""
    if not any((source / name).is_file() for name in ("Dockerfile", "requirements.txt")):
        raise UserError("holds neither a Dockerfile nor a requirements.txt", where=source, remedy="add one")
    with tempfile.TemporaryDirectory(prefix="mldb-image-") as folder:
        context = Path(folder) / "context"
        shutil.copytree(source, context)
        (context / "wheels").mkdir()
        if (context / "requirements.txt").is_file():
            _fetch(context, how)
        yield context


def _fetch(context: Path, how: Build) -> None:
    machine = platform.machine()
    command = [sys.executable, "-I", "-m", "pip", "download", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", how.python]
    for abi in (f"cp{how.python.replace('.', '')}", "abi3", "none"):
        command += ["--abi", abi]
    for name in _PLATFORMS:
        command += ["--platform", f"{name}_{machine}"]
    command += ["--dest", str(context / "wheels"), "--requirement", str(context / "requirements.txt")]
    _run(command, "the packages could not be fetched", "see what pip says; PIP_INDEX_URL and PIP_CERT are passed on")


def _build(context: Path, tag: str, arguments: list[str], how: Build) -> None:
    program = shutil.which("docker") or shutil.which("podman")
    if program is None:
        raise UserError("no client", where="docker", remedy="install docker or podman; only building needs it")
    command = [program, "build", "--tag", tag, *arguments]
    if how.network:
        command += ["--network", how.network]
    _run([*command, str(context)], f"{tag} could not be built", "see what the engine says")


def _run(command: list[str], fault: str, remedy: str) -> None:
    """Run it for all to see: what it says goes to standard error."""
    engine = {"DOCKER_HOST": f"unix://{find_engine().address}"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env={**os.environ, **engine}, check=False
        )
    except OSError as error:
        raise UserError(f"{fault}: {error}", where="image build", remedy=remedy) from None
    if done.returncode != 0:
        raise UserError(f"{fault} (status {done.returncode})", where="image build", remedy=remedy)
