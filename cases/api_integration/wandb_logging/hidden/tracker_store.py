"""The runs that the service knows, and the journal of what happened to them."""

from __future__ import annotations

import base64
import re
import time
from dataclasses import dataclass, field

from tracker_wire import Json, RefusedError

from bench.casekit.services import Service

ENTITY = "bench-team"
MAX_RUNS = 200
MAX_EVENTS = 20_000


@dataclass
class Run:
    """One run as the service knows it; `values` are the numbers it was given to log."""

    name: str
    project: str
    display_name: str
    created: float = field(default_factory=time.time)
    tags: list[str] = field(default_factory=list)
    config: str = "{}"
    state: str = "running"
    rows: list[Json] = field(default_factory=list)
    summary: Json = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)

    @property
    def storage_id(self) -> str:
        """The id inside GraphQL; the one that people see and that the judge means is `name`."""
        return base64.b64encode(f"Run:v1:{self.name}:{self.project}:{ENTITY}".encode()).decode()


def all_runs(service: Service) -> dict[str, Run]:
    """The runs of all projects by their name, in the order of their creation."""
    runs: dict[str, Run] = service.state.setdefault("runs", {})
    return runs


def find_run(service: Service, project: object, name: object) -> Run:
    """The run of that name in that project."""
    run = all_runs(service).get(str(name))
    if run is None or run.project != project:
        raise RefusedError(f"run {project}/{name} does not exist")
    return run


def create_run(service: Service, project: str, name: str) -> Run:
    """A new run, unless the name or the project cannot be one."""
    number = len(all_runs(service)) + 1
    if number > MAX_RUNS:
        raise RefusedError("too many runs for one trial")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) or not re.fullmatch(r"[A-Za-z0-9_. -]{1,128}", project):
        raise RefusedError("a run id or project name is missing or has characters that are not allowed")
    run = Run(name, project, f"run-{number}")
    all_runs(service)[name] = run
    return run


def note(service: Service, event: str, run: Run, **facts: object) -> None:
    """Journals one fact about a run; `n` gives the order of all facts."""
    number = service.state["events"] = service.state.get("events", 0) + 1
    if number > MAX_EVENTS:
        raise RefusedError("too many requests for one trial")
    service.journal({"n": number, "event": event, "run_id": run.name, "project": run.project, **facts})
