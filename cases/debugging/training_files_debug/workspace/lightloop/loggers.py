"""Reports to an experiment tracker."""

import json
import os
import urllib.request
from typing import Any


class TrackerLogger:
    """A run at the tracker whose address is in TRACKER_URL; the tracker gives it its id."""

    def __init__(self, project: str) -> None:
        self.project, self.address = project, os.environ["TRACKER_URL"].rstrip("/")
        self.run_id = str(self._post("/api/runs", {"project": project})["run_id"])
        self.url = f"{self.address}/runs/{self.run_id}"

    def _post(self, path: str, message: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(self.address + path, json.dumps(message).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return dict(json.load(answer))

    def log(self, metrics: dict[str, float], epoch: int, step: int) -> None:
        self._post(f"/api/runs/{self.run_id}/log", {"epoch": epoch, "step": step, "metrics": metrics})

    def finish(self) -> None:
        self._post(f"/api/runs/{self.run_id}/finish", {})
