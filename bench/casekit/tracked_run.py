"""A run as the tracker keeps it, and what its client may read of it. Standard library only."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field

from bench.casekit.json_requests import Json

ENTITY = "bench-team"
USER: Json = {"id": "VXNlcjox", "name": ENTITY, "username": ENTITY}


@dataclass
class Run:
    """One run as the service knows it; `values` are the numbers that a case gave it to log."""

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


def project_facts(name: str) -> Json:
    return {"id": name, "name": name, "entity": {"id": ENTITY, "name": ENTITY}}


def run_facts(run: Run) -> Json:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.created))
    steps = [row["_step"] for row in run.rows if isinstance(row.get("_step"), int)]
    return {
        "id": run.storage_id, "name": run.name, "displayName": run.display_name, "state": run.state, "tags": run.tags,
        "config": run.config, "description": None, "notes": None, "sweepName": None, "group": None, "jobType": None,
        "commit": None, "readOnly": False, "createdAt": moment, "heartbeatAt": moment, "systemMetrics": "{}",
        "user": USER, "project": project_facts(run.project), "projectId": "1", "historyLineCount": len(run.rows),
        "historyKeys": {"keys": {key: {} for row in run.rows for key in row}, "lastStep": max(steps, default=-1)},
        "parquetHistory": {"parquetUrls": [], "liveData": []}, "events": [],
        # What a client wants to know before it resumes the run; without its own mark "t" it takes it for not begun.
        "historyTail": json.dumps([json.dumps(row) for row in run.rows[-1:]]), "wandbConfig": '{"t": {}}',
        "logLineCount": 0, "eventsLineCount": 0, "eventsTail": "[]",
    }  # fmt: skip


def rows_between(run: Run, low: object, high: object) -> list[Json]:
    """The rows from step `low` up to, but without, step `high`; what is not a number sets no limit."""
    first = low if isinstance(low, int) else 0
    steps = [(row, row["_step"] if isinstance(row.get("_step"), int) else 0) for row in run.rows]
    return [row for row, step in steps if first <= step and (not isinstance(high, int) or step < high)]


def sample(run: Run, spec: Json) -> list[Json]:
    """Rows that hold every asked key, and of them only these keys. Here the highest step belongs to what is asked."""
    wanted, high = spec.get("keys"), spec.get("maxStep")
    keys = [key for key in wanted if isinstance(key, str)] if isinstance(wanted, list) else []
    rows = rows_between(run, spec.get("minStep"), high + 1 if isinstance(high, int) else None)
    return [{key: row[key] for key in keys} for row in rows if all(key in row for key in keys)]
