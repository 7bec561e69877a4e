"""Which container engine is meant, and Docker's own Python library for all that is not on a cell's path.

The library takes a tenth of a second and 20 MB to import. So it is imported for images, for the report of `doctor`,
and to find an engine that a Docker context names; an engine at a Unix socket is found, and runs cells, without it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.base.errors import UserError
from bench.sandbox.docker.engine import Engine

if TYPE_CHECKING:
    from docker import APIClient
    from docker.tls import TLSConfig

_ANSWER_S = 20


@dataclass(frozen=True)
class Address:
    """Where an engine listens."""

    url: str
    named_by: str
    """DOCKER_HOST, or a context; `docker` for a usual place."""
    tls: TLSConfig | None = None
    """What the context says of it."""


def find_engine() -> Engine:
    """The engine that can run cells here; raises `UserError`."""
    address = find_address()
    kind, _, path = address.url.partition("://")
    if kind != "unix":
        raise UserError(
            f"is {address.url!r}; cells mount folders of this machine, which an engine on another one cannot see",
            where=address.named_by,
            remedy="for cells name a Unix socket: DOCKER_HOST=unix:///var/run/docker.sock",
        )
    return Engine(Path(path))


def find_address() -> Address:
    """The engine that the `docker` command would use, or one at another usual place; raises `UserError`."""
    if host := os.environ.get("DOCKER_HOST", ""):
        return Address(host, "DOCKER_HOST")
    config = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    context = os.environ.get("DOCKER_CONTEXT") or _context_in_use(config / "config.json")
    if context != "default":
        return _address_of(context, config)
    for place in _places():
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(place.stat().st_mode) and os.access(place, os.W_OK):
                return Address(f"unix://{place}", "docker")
    raise UserError(
        "no socket of a container engine that this user may use",
        where="docker",
        remedy="start Docker (and join the group docker), or set DOCKER_HOST",
    )


@contextmanager
def open_client() -> Iterator[APIClient]:
    """The library's client of the engine that is meant; its faults are raised as `UserError`."""
    address = find_address()
    _require_library("asking the engine about itself and its images")
    from docker.errors import APIError, DockerException
    from docker.utils import kwargs_from_env
    from requests import RequestException

    try:
        # Only DOCKER_HOST goes with DOCKER_TLS_VERIFY and DOCKER_CERT_PATH; a context has certificates of its own.
        tls = kwargs_from_env().get("tls") if address.named_by == "DOCKER_HOST" else address.tls
        with contextlib.closing(_client_of(address.url, tls or False)) as client:
            yield client
    except APIError as error:
        raise UserError(f"the engine says: {error.explanation or error}", where=address.named_by) from None
    except (DockerException, RequestException) as error:
        remedy = "check that `docker version` answers"
        raise UserError(f"{address.url}: {error}", where=address.named_by, remedy=remedy) from None


def _client_of(url: str, tls: TLSConfig | bool) -> APIClient:
    from docker import APIClient

    class Client(APIClient):
        """Trusts the authority that was named for the engine, where requests would put REQUESTS_CA_BUNDLE first."""

        def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
            return super().merge_environment_settings(url, proxies, stream, verify or self.verify, cert)

    return Client(base_url=url, version="auto", timeout=_ANSWER_S, tls=tls)


def image_id(client: APIClient, name: str) -> str:
    """Content id of an image; empty when there is none of this name."""
    from docker.errors import ImageNotFound

    try:
        # A decorator of the library hides the types.
        return str(client.inspect_image(name)["Id"])  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return ""


def _context_in_use(config: Path) -> str:
    """What `docker context use` has written."""
    try:
        return str(json.loads(config.read_bytes()).get("currentContext") or "default")
    except FileNotFoundError:
        return "default"
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"cannot be read: {error}", where=config, remedy="fix it, or set DOCKER_HOST") from None


@functools.lru_cache(maxsize=8)
def _address_of(context: str, config: Path) -> Address:
    """The address in a context; kept, so that a run stays with its engine when the context is changed meanwhile."""
    where = f"docker context {context}"
    _require_library(f"the context {context!r}")
    from docker.context import ContextAPI

    try:
        found = ContextAPI.get_context(context)
    except Exception as error:
        # The library raises this very class for a file that it cannot read, and lets KeyError and others pass.
        raise UserError(f"cannot be read: {error}", where=where, remedy="create it again") from None
    if found is None or not found.Host:
        raise UserError(
            f"is not in {config / 'contexts'}", where=where, remedy="see `docker context ls`, then `docker context use`"
        )
    return Address(found.Host, where, found.TLSConfig)


def _require_library(what: str) -> None:
    try:
        import docker  # noqa: F401
    except ImportError:
        raise UserError(
            f"{what} needs Docker's Python library", where="docker", remedy="pip install 'ml-dev-bench[docker]'"
        ) from None


def _places() -> list[Path]:
    own = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return [
        Path("/var/run/docker.sock"),
        own / "docker.sock",
        own / "podman" / "podman.sock",
        Path("/run/podman/podman.sock"),
    ]
