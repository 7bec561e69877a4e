"""Containers of runners that are gone: found by their labels, and removed."""

from __future__ import annotations

from bench.sandbox.dockerengine import Engine
from bench.sandbox.group import Owner

RUN = "ml-dev-bench.run"
CELL = "ml-dev-bench.cell"
OWNER = "ml-dev-bench.owner"
"""Holds the container's name, which tells whose it is: see `bench.sandbox.group.Owner`."""


def sweep(engine: Engine) -> list[str]:
    """Remove the containers whose owners are gone; returns their names. Raises `EngineError`."""
    removed = leftovers(engine)
    for name in removed:
        engine.remove(name)
    return removed


def leftovers(engine: Engine) -> list[str]:
    """Names of the containers whose owners are gone; raises `EngineError`."""
    found = engine.call("GET", "/containers/json", query={"all": "1", "filters": {"label": [OWNER]}})
    names = [str(item["Labels"][OWNER]) for item in found]
    return [name for name in names if (owner := Owner.of(name)) is not None and owner.gone()]
