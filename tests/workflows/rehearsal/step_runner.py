"""What a workflow runner gives to a step: variables, files for outputs and the summary, a folder to work in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.workflows.rehearsal.stage import ROOT

FACTS = {
    "GITHUB_RUN_ID": "99",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_JOB": "night",
    "GITHUB_SERVER_URL": "https://github.invalid",
    "GITHUB_REPOSITORY": "stranger/agent",
}


class StepRunner:
    """One machine of a workflow run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True)
        (folder / "temp").mkdir()

    def step(self, verb: str, status: int = 0, /, **variables: str | Path) -> subprocess.CompletedProcess[str]:
        """The verb of `ml-dev-bench action`, which must end with `status`."""
        env = self.environment(**variables)
        (self.folder / "output").unlink(missing_ok=True)
        command = [sys.executable, "-P", "-m", "bench", "action", verb]
        done = subprocess.run(
            command, env=env, cwd=self.workspace, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == status, f"{done.returncode}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def environment(self, **variables: str | Path) -> dict[str, str]:
        """What a runner gives to a step."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "MLDB_", "GIT_"))},
            **FACTS,
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "RUNNER_TEMP": str(self.folder / "temp"),
            "PYTHONPATH": str(ROOT),
            **{name: str(value) for name, value in variables.items()},
        }

    @property
    def outputs(self) -> dict[str, str]:
        """The outputs of the last step."""
        lines = (self.folder / "output").read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The error annotations of a step."""
    return [line for line in done.stdout.splitlines() if line.startswith("::error ")]
