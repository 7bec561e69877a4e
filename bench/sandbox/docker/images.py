"""Which image a job gets: found by a name that holds the digest of its definition, used by its content id."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.base.errors import InfraError, UserError
from bench.base.files import digest_folder, sha256_bytes
from bench.base.install import find_data_folders
from bench.sandbox.docker.client import image_id, open_client
from bench.sandbox.docker.engine import Engine, EngineError

if TYPE_CHECKING:
    from docker import APIClient


IMAGE_VARIABLE = "MLDB_IMAGE"
"""Names another shared image, by tag or content id."""
PUBLISHED = "ghcr.io/ml-dev-bench/environment"
"""Where the shared image is meant to be published; one that was pulled from there is used, none is pulled by us."""
LOCAL = "ml-dev-bench/environment"
_CASE_DOCKERFILE = """\
ARG BASE
FROM ${BASE}
COPY requirements.txt wheels /case/
RUN /opt/bench/bin/python -m pip install --quiet --no-cache-dir --no-index --find-links /case \\
    --requirement /case/requirements.txt
"""
_PLATFORMS = ("manylinux_2_17", "manylinux2014", "manylinux_2_28", "manylinux_2_34", "manylinux_2_35", "manylinux_2_36")
"""Of wheels that run on Debian 12, whose glibc is 2.36; a wheel for an older one has the older name."""


def definition() -> Path:
    """Folder of the shared image's Dockerfile and requirements."""
    return find_data_folders().cases / "environment"


def shared_tag(repository: str = LOCAL) -> str:
    """Name of the shared image: another definition is another name, so no stale image is taken for it."""
    return f"{repository}:{digest_folder(definition(), without=frozenset({'README.md'}))[7:19]}"


def case_tag(shared: str, environment: Path) -> str:
    """Name of the image of a case that adds to the shared one, whose content id is `shared`."""
    content = sha256_bytes(f"{shared}\0{digest_folder(environment)}".encode())[7:19]
    return f"ml-dev-bench/case-{environment.parent.name}:{content}"


def shared_image(image_id: Callable[[str], str]) -> str:
    """Content id of the shared image; raises `UserError` when the engine does not answer or has none.

    image_id: of an engine's image, by name; empty when there is none.
    """
    named = os.environ.get(IMAGE_VARIABLE, "")
    try:
        for name in [named] if named else [shared_tag(), shared_tag(PUBLISHED)]:
            if found := image_id(name):
                return found
    except EngineError as error:
        raise UserError(str(error), where="docker", remedy="start the engine, or use another --sandbox") from None
    if named:
        raise UserError(f"the engine has no image {named!r}", where=IMAGE_VARIABLE, remedy="build or pull it")
    raise UserError(
        f"the engine has no image {shared_tag()}", where="docker", remedy="build it: ml-dev-bench image build"
    )


def case_image(engine: Engine, shared: str, environment: Path | None) -> str:
    """Content id of a case's image; raises `InfraError` when it was not built."""
    if environment is None:
        return shared
    name = case_tag(shared, environment)
    try:
        found = engine.image_id(name)
    except EngineError as error:
        raise InfraError("sandbox_error", str(error)) from None
    if not found:
        remedy = f"ml-dev-bench image build --case {environment.parent.name}"
        raise InfraError("needs_missing", f"the engine has no image {name}: {remedy}")
    return found


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
    with open_client() as client, _context(definition(), how) as context:
        _build(client, context, shared_tag(), how.base, how)
        return image_id(client, shared_tag())


def build_case(environment: Path, how: Build) -> str:
    """Build the image of the case whose folder `environment` this is; returns its name. Raises `UserError`."""
    with open_client() as client:
        tag = case_tag(shared_image(partial(image_id, client)), environment)
        with _context(environment, how) as context:
            if not (context / "Dockerfile").exists():
                (context / "Dockerfile").write_text(_CASE_DOCKERFILE)
            _build(client, context, tag, os.environ.get(IMAGE_VARIABLE) or shared_tag(), how)
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
    try:
        # pip speaks to all: what it says goes to standard error.
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    except OSError as error:
        raise UserError(f"pip cannot be started: {error}", where="image build") from None
    if done.returncode != 0:
        raise UserError(
            f"the packages could not be fetched (status {done.returncode})",
            where="image build",
            remedy="see what pip says; PIP_INDEX_URL and PIP_CERT are passed on",
        )


def _build(client: APIClient, context: Path, tag: str, base: str, how: Build) -> None:
    """Build it for all to see: what the engine says goes to standard error."""
    arguments = {"BASE": base} if base else {}
    network = how.network or None
    for said in client.build(
        path=str(context), tag=tag, buildargs=arguments, network_mode=network, rm=True, forcerm=True, decode=True
    ):
        if "error" in said:
            raise UserError(f"{tag} could not be built: {said['error']}", where="image build", remedy="see above")
        print(said.get("stream", ""), end="", file=sys.stderr, flush=True)
