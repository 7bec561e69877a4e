"""The agent's own trace: one JSON line an event, on disk as soon as it happened."""

from __future__ import annotations

import json
import time
from pathlib import Path


class Events:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path

    def write(self, event: str, **facts: object) -> None:
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts})
        with self._path.open("a", encoding="ascii") as file:
            file.write(line + "\n")
