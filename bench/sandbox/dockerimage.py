"""Which image a job gets: found by a name that holds the digest of its definition, used by its content id."""

from __future__ import annotations

import os
from pathlib import Path

from bench.errors import InfraError, UserError
from bench.files import digest_folder, sha256_bytes
from bench.places import find_places
from bench.sandbox.dockerengine import Engine, EngineError

IMAGE_VARIABLE = "MLDB_IMAGE"
"""Names another shared image, by tag or content id."""
PUBLISHED = "ghcr.io/ml-dev-bench/environment"
"""Where the shared image is meant to be published; one that was pulled from there is used, none is pulled by us."""
LOCAL = "ml-dev-bench/environment"


def definition() -> Path:
    """Folder of the shared image's Dockerfile and requirements."""
    return find_places().cases / "environment"


def shared_tag(repository: str = LOCAL) -> str:
    """Name of the shared image: another definition is another name, so no stale image is taken for it."""
    return f"{repository}:{digest_folder(definition(), without=frozenset({'README.md'}))[7:19]}"


def case_tag(shared: str, environment: Path) -> str:
    """Name of the image of a case that adds to the shared one, whose content id is `shared`."""
    content = sha256_bytes(f"{shared}\0{digest_folder(environment)}".encode())[7:19]
    return f"ml-dev-bench/case-{environment.parent.name}:{content}"


def shared_image(engine: Engine) -> str:
    """Content id of the shared image; raises `UserError` when the engine does not answer or has none."""
    named = os.environ.get(IMAGE_VARIABLE, "")
    try:
        for name in [named] if named else [shared_tag(), shared_tag(PUBLISHED)]:
            if found := _lookup(engine, name):
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
        found = _lookup(engine, name)
    except EngineError as error:
        raise InfraError("sandbox_error", str(error)) from None
    if not found:
        remedy = f"ml-dev-bench image build --case {environment.parent.name}"
        raise InfraError("needs_missing", f"the engine has no image {name}: {remedy}")
    return found


def _lookup(engine: Engine, name: str) -> str:
    """Content id of an image; empty when there is none of this name."""
    try:
        return str(engine.call("GET", f"/images/{name}/json", timeout_s=20)["Id"])
    except EngineError as error:
        if error.status == 404:
            return ""
        raise
