"""A runner's step: a real process with the variables that a workflow runner gives it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.workflows.rehearsal.stage import ROOT

WORDS = {"GITHUB_RUN_ID": "99", "GITHUB_JOB": "bench", "GITHUB_SERVER_URL": "https://github.invalid"}
HELLO = {"MLDB_AGENT": "oracle", "MLDB_CASES": "hello_world", "MLDB_SANDBOX": "process"}


class Runner:
    """What a workflow runner gives to a step, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "workspace").mkdir()
        (folder / "temp").mkdir()

    def step(self, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.start([sys.executable, "-P", "-m", "bench", "action", name], variables)

    def start(self, command: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "MLDB_", "GIT_"))},
            **WORDS,
            "GITHUB_REPOSITORY": "stranger/agent",
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "RUNNER_TEMP": str(self.folder / "temp"),
            "PYTHONPATH": str(ROOT),
            **variables,
        }
        return subprocess.run(
            command, env=env, cwd=self.folder / "workspace", capture_output=True, text=True, timeout=120, check=False
        )

    def outputs(self) -> dict[str, str]:
        """The outputs of the last step."""
        path = self.folder / "output"
        lines = path.read_text(encoding="utf-8").splitlines()
        path.unlink()
        return dict(line.split("=", 1) for line in lines)

    def ran(self, **variables: str) -> dict[str, str]:
        done = self.step("run", **{**HELLO, **variables})
        assert done.returncode == 0, done.stdout + done.stderr
        return self.outputs()
