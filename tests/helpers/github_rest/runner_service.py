"""What a runner itself speaks to: a session by its configuration, one job by its label, artifacts, the job's end.

GitHub documents none of that, so the paths are this stand-in's own. What holds for GitHub holds here: a configuration
is spent by its first session, a job waits until a runner with its label comes, and the record of a runner of one job is
gone after it. `tests/workflows/rehearsal/actions_runner.py` is the other side.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.helpers.github_rest.protocol import Answer, Json, Refused


@dataclass
class Job:
    """A job of a workflow run."""

    label: str
    """Of `runs-on`."""
    asked: Mapping[str, Any]
    """What the runner is to do."""
    runner: int = 0
    """0 while it waits."""
    conclusion: str = ""


class RunnerService:
    """Jobs and artifacts of one repository."""

    def __init__(self, records: dict[int, Json]) -> None:
        self.records = records
        self.host = ""
        self.jobs: list[Job] = []
        self.artifacts: dict[str, bytes] = {}
        self._spent: set[int] = set()
        # Several runners ask at once.
        self._lock = threading.Lock()

    def configuration(self, record: Json) -> str:
        """As long as real ones are: three documents, each in base 64, and all of them once more."""
        about = {"agentId": record["id"], "agentName": record["name"], "serverUrl": self.host, "ephemeral": True}
        documents = {".runner": json.dumps(about).ljust(400), ".credentials": "x" * 400}
        documents[".credentials_rsaparams"] = "x" * 1700
        packed = {key: base64.b64encode(text.encode()).decode() for key, text in documents.items()}
        return base64.b64encode(json.dumps(packed).encode()).decode()

    def queue(self, label: str, asked: Mapping[str, Any]) -> Job:
        """A job that waits for the runner with this label."""
        job = Job(label, asked)
        self.jobs.append(job)
        return job

    def lose(self, job: Job) -> None:
        """The runner of the job does not answer any more: the job has failed."""
        job.conclusion = "failure"
        if job.runner in self.records:
            self.records[job.runner] |= {"status": "offline", "busy": False}

    def answer(self, path: str, body: Json) -> Answer:
        with self._lock:
            number = int(body["runner"])
            if number not in self.records:
                raise Refused(401, "The runner registration has been deleted from the server.")
            return {"session": self._session, "job": self._job, "artifact": self._artifact, "end": self._end}[path](
                number, body
            )

    def _session(self, number: int, body: Json) -> Answer:
        if number in self._spent:
            raise Refused(409, "The configuration was used before.")
        self._spent.add(number)
        self.records[number]["status"] = "online"
        return Answer(200, {})

    def _job(self, number: int, body: Json) -> Answer:
        labels = {it["name"] for it in self.records[number]["labels"]}
        job = next((it for it in self.jobs if not it.runner and it.label in labels), None)
        if job is None:
            return Answer(200, {})
        job.runner = number
        self.records[number]["busy"] = True
        return Answer(200, dict(job.asked))

    def _artifact(self, number: int, body: Json) -> Answer:
        if body["name"] in self.artifacts:
            raise Refused(409, "an artifact with this name already exists on the workflow run")
        self.artifacts[body["name"]] = base64.b64decode(body["archive"])
        return Answer(200, {})

    def _end(self, number: int, body: Json) -> Answer:
        job = next(it for it in self.jobs if it.runner == number)
        job.conclusion = body["conclusion"]
        del self.records[number]
        return Answer(200, {})
