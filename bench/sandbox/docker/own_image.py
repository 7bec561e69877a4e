"""An agent's own image: the file system of its phase. Workspace, limits, gateway and first process stay ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.base.errors import UserError
from bench.sandbox.docker.engine import Engine, EngineError
from bench.sandbox.job import Job

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class OwnImage:
    """What the engine says of an image."""

    content: str
    """Content id."""
    variables: Mapping[str, str]
    """What the image sets for its programs."""


def own_image(engine: Engine, name: str) -> OwnImage:
    """The image `name`, which holds a digest; raises `UserError` when it cannot be used, or the engine does not answer.

    None is pulled here: a run would wait for minutes, and with the rights of whoever started the engine.
    """
    try:
        facts = engine.call("GET", f"/images/{name}/json")
    except EngineError as error:
        if error.status != 404:
            raise UserError(str(error), where="docker", remedy="start the engine, or use another --sandbox") from None
        remedy = f"`docker pull {name}`" if "@" in name else "load it there, or name it as NAME@sha256:..."
        raise UserError(f"the engine has no image {name}", where="environment.image", remedy=remedy) from None
    config: dict[str, Any] = facts.get("Config") or {}
    variables = dict(text.partition("=")[::2] for text in config.get("Env") or [])
    if volumes := sorted(config.get("Volumes") or {}):
        # An engine makes each a folder that can be written to without a limit.
        fault = f"the image {name} declares the volume {volumes[0]}, where no limit of the disk holds"
        raise UserError(fault, where="environment.image", remedy="build it without VOLUME")
    return OwnImage(str(facts["Id"]), variables)


def in_own_image(orders: Mapping[str, Any], job: Job, image: OwnImage) -> dict[str, Any]:
    """The orders to the first process, with the image's programs in the place of the shared image's."""
    variables = {**image.variables, **orders["environment"]}
    variables["PATH"] = job.env.get("PATH") or image.variables.get("PATH") or _PATH
    paths = [it for it in (orders["environment"], image.variables) if "LD_LIBRARY_PATH" in it]
    if paths:
        variables["LD_LIBRARY_PATH"] = ":".join(it["LD_LIBRARY_PATH"] for it in paths)
    return {**orders, "argv": list(job.argv), "environment": variables}
