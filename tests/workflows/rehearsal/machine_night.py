"""Nights on machines that are made for them: the jobs of docs/machines.md, each on a fresh runner, step by step."""

from __future__ import annotations

import base64
import io
import json
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.formats.plan import PlanFile, read_plan_file
from tests.workflows.rehearsal.stage import HERE, git
from tests.workflows.rehearsal.step_runner import FACTS, StepRunner

REPOSITORY = FACTS["GITHUB_REPOSITORY"]
SECRET = "one secret of the repository"
CELLS = 6
_SECONDS = 1.5
"""Each cell takes so long: time to be interrupted in the middle of a shard."""


@dataclass
class Repository:
    """A stranger's repository, with what all of its nights share."""

    folder: Path
    machine: dict[str, Any]
    """The machine class."""
    settings: dict[str, Any]
    """The machines file."""
    told: dict[str, str]
    """Variables of the steps that know the engine: its name, credentials."""

    @property
    def results(self) -> Path:
        return self.folder / "results.git"

    def checkout(self, target: Path) -> None:
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / "stranger" / "agent.yaml", target / "agent.yaml")
        slow = (HERE / "stranger" / "greeter.py").read_text(encoding="utf-8")
        (target / "greeter.py").write_text(f"{slow}import time\n\ntime.sleep({_SECONDS})\n", encoding="utf-8")
        experiment = {"name": "nightly", "agents": ["./agent.yaml"], "cases": ["hello_world"], "trials": CELLS}
        experiment |= {"shard_minutes": 1, "machines": [self.machine], "budget": {"usd": 5}}
        (target / "nightly.yaml").write_text(yaml.safe_dump(experiment), encoding="utf-8")
        (target / "machines.yaml").write_text(yaml.safe_dump(self.settings), encoding="utf-8")


class MachineNight:
    """One workflow run."""

    def __init__(self, repository: Repository, number: int, missing_from: MachineNight | None = None) -> None:
        """Plans: the experiment, or the cells without a verdict of an earlier night."""
        self.repository = repository
        self.number = number
        self.folder = repository.folder / str(number)
        self.artifacts = self.folder / "artifacts"
        self.artifacts.mkdir(parents=True)
        told = {"MLDB_EXPERIMENT": "nightly.yaml", "MLDB_RESULTS_REPOSITORY": "none"}
        if missing_from is not None:
            told = {"MLDB_MISSING_FROM": str(missing_from.plan), "MLDB_RESULTS_REPOSITORY": str(repository.results)}
        planner = self._runner("plan")
        done = planner.step(
            "plan",
            **self._facts(**told, MLDB_SANDBOX="bubblewrap", MLDB_RUNNER="self-hosted", MLDB_SEED_SECRET=SECRET),
        )
        self.planned = done.stdout
        self.matrix = planner.outputs["matrix"]
        self.plan: Path = Path(shutil.copytree(planner.outputs["plan"], self.folder / "plan"))
        self.quoted_usd = 0.0
        self.outputs: dict[str, str] = {}

    @property
    def document(self) -> PlanFile:
        return read_plan_file(self.plan / "plan.json")

    def provision(self, budget_usd: float) -> list[dict[str, Any]]:
        """The entries of the matrix, each with the label of its own machine; none where the machines run the shards."""
        runner = self._runner("provision")
        told = {"MLDB_MATRIX": self.matrix, "MLDB_BUDGET_USD": str(budget_usd)}
        done = runner.step("provision", **self._engine(MLDB_PLAN=str(self.plan), **told))
        rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("| ")]
        self.quoted_usd = sum(float(row[-3]) for row in rows[1:])
        assert 0 < self.quoted_usd <= budget_usd, done.stdout
        assert runner.outputs["single-use"] == "true"
        runs = runner.outputs["matrix-runs"] == "true"
        entries: list[dict[str, Any]] = json.loads(runner.outputs["matrix"])["include"] if runs else []
        return entries

    def job(self, entry: dict[str, Any]) -> dict[str, Any]:
        """What a runner is asked to do for an entry of the matrix."""
        checkout = self.folder / f"checkout-{entry['shard']}"
        self.repository.checkout(checkout)
        facts = {**FACTS, "GITHUB_RUN_ID": str(self.number), "GITHUB_JOB": "run"}
        told = {"MLDB_SHARD": entry["shard"], "MLDB_SEED_SECRET": SECRET}
        return {"checkout": _packed(checkout), "plan": _packed(self.plan), "variables": {**facts, **told}}

    def upload(self, artifacts: dict[str, bytes]) -> None:
        """What actions/download-artifact lays out for the pattern of the plan."""
        for name, archive in artifacts.items():
            if name.startswith(f"{self.document.name}-"):
                with zipfile.ZipFile(io.BytesIO(archive)) as packed:
                    packed.extractall(self.artifacts / name)

    def collect(self, status: int = 0, **told: str) -> subprocess.CompletedProcess[str]:
        runner = self._runner("collect")
        where = {"MLDB_RESULTS_REPOSITORY": str(self.repository.results), "MLDB_ARTIFACTS": str(self.artifacts)}
        done = runner.step("collect", status, **self._facts(MLDB_PLAN=str(self.plan), **where, **told))
        self.outputs = runner.outputs
        return done

    def release(self) -> subprocess.CompletedProcess[str]:
        return self._runner("release").step("release", **self._engine())

    def sweep(self) -> subprocess.CompletedProcess[str]:
        return self._runner("sweep").step("sweep", **self._engine(MLDB_PAUSE_SECONDS="0"))

    def check_site(self) -> None:
        """Build the site from the tip of the results branch, which its first page must name."""
        runner = self._runner("site")
        runner.step("site", **self._facts(MLDB_RESULTS_REPOSITORY=str(self.repository.results)))
        assert runner.outputs["publish"] == "true"
        tip = git(self.repository.results, "rev-parse", "refs/heads/mldb-results")
        front = (Path(runner.outputs["site"]) / "index.html").read_text(encoding="utf-8")
        assert f"Built from commit <code>{tip[:12]}</code> of mldb-results" in front and "greeter" in front

    def _runner(self, job: str) -> StepRunner:
        runner = StepRunner(self.folder / f"job-{len(list(self.folder.glob('job-*')))}-{job}")
        self.repository.checkout(runner.workspace)
        return runner

    def _facts(self, **told: str) -> dict[str, str | Path]:
        return {"GITHUB_RUN_ID": str(self.number), **told}

    def _engine(self, **told: str) -> dict[str, str | Path]:
        return self._facts(MLDB_MACHINES="machines.yaml", **self.repository.told, **told)


def _packed(folder: Path) -> str:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in sorted(it for it in folder.rglob("*") if it.is_file()):
            archive.write(path, path.relative_to(folder))
    return base64.b64encode(packed.getvalue()).decode()
