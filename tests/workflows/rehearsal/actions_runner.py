"""Stands in for GitHub's runner on a machine: takes one job by its configuration, runs a shard, and ends.

It has the standard library alone, because it also runs in the image of AWS Batch. What it does with the job is what the
job `run` of docs/machines.md asks for: checkout, the plan, the step that runs the shard, and, however that ended, the
upload of what it has left.
"""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

_POLL_S = 0.2


class _Service:
    def __init__(self, configuration: str) -> None:
        documents = json.loads(base64.b64decode(configuration))
        self._about = json.loads(base64.b64decode(documents[".runner"]))

    def ask(self, path: str, **facts: object) -> dict[str, Any]:
        body = json.dumps({"runner": self._about["agentId"], **facts}).encode()
        address = f"{self._about['serverUrl']}/api/v3/runner-service/{path}"
        asked = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def main() -> int:
    # As the real runner does: what it starts does not see it.
    service = _Service(os.environ.pop("ACTIONS_RUNNER_INPUT_JITCONFIG"))
    service.ask("session")
    while not (job := service.ask("job")):
        time.sleep(_POLL_S)
    # A file of this name tells `ml-dev-bench action runner-job` that a job has come.
    (diagnosis := Path("_diag")).mkdir(exist_ok=True)
    (diagnosis / "Worker_1.log").touch()
    if hook := os.environ.get("ACTIONS_RUNNER_HOOK_JOB_STARTED"):
        subprocess.run([hook], check=True)
    folder = Path("_work").resolve()
    _unpack(job["checkout"], folder / "checkout")
    _unpack(job["plan"], folder / "temp" / "mldb-plan")
    status = _run_step(job["variables"], folder)
    _upload(service, folder)
    service.ask("end", conclusion="failure" if status else "success")
    return 0


def _unpack(archive: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(archive))) as packed:
        packed.extractall(folder)


def _run_step(variables: dict[str, str], folder: Path) -> int:
    """The step that runs the shard, with what a runner gives to a step; its exit status."""
    facts = {
        "HOME": folder,
        "GITHUB_WORKSPACE": folder / "checkout",
        "GITHUB_OUTPUT": folder / "output",
        "GITHUB_STEP_SUMMARY": folder / "summary",
        "RUNNER_TEMP": folder / "temp",
        "MLDB_PLAN": folder / "temp" / "mldb-plan",
    }
    # As from GitHub's runner, a step gets the environment of the machine, too.
    env = {**os.environ, **{name: str(value) for name, value in facts.items()}, **variables}
    # The runner is told to end by an interrupt, which it hands on; steps that always run come after it.
    signal.signal(signal.SIGINT, lambda number, frame: step.send_signal(signal.SIGINT))
    step = subprocess.Popen(
        [sys.executable, "-P", "-m", "bench", "action", "run-shard"], cwd=folder / "checkout", env=env, process_group=0
    )
    return step.wait()


def _upload(service: _Service, folder: Path) -> None:
    """The artifact that the outputs of the step name, without what killed cells left."""
    output = folder / "output"
    lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
    outputs = dict(line.split("=", 1) for line in lines)
    if not outputs.get("records"):
        return
    records, packed = Path(outputs["records"]), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for path in sorted(records.rglob("*")):
            name = path.relative_to(records)
            if path.is_file() and not path.is_symlink() and "scratch" not in name.parts:
                archive.write(path, name)
    service.ask("artifact", name=outputs["artifact"], archive=base64.b64encode(packed.getvalue()).decode())


if __name__ == "__main__":
    sys.exit(main())
