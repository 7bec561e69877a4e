"""What the steps of a matrix share: the plan among artifacts, their names, folders of the job and the secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from bench.base.model import Model
from bench.cli.action_inputs import own_repository, runner_variable, use_token

if TYPE_CHECKING:
    from bench.formats.plan import PlanFile


SECRET = "MLDB_SEED_SECRET"


PLAN = "plan.json"


FIRST = "first.json"
"""Beside the plan of a later round: the plan of all rounds, which the looks need."""


class BranchInputs(Model):
    """Where records are, and where they go."""

    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")

    def open(self, token: str) -> str:
        """The repository, which git reaches with the token from now on."""
        repository = self.results_repository or own_repository()
        use_token(token, repository)
        return repository


def plan_in(path: Path) -> Path:
    """plan.json at `path`, or in the folder that its artifact made; of several attempts at planning the last."""
    if not path.is_dir() or (path / PLAN).is_file():
        return path / PLAN if path.is_dir() else path

    def attempt(file: Path) -> int:
        number = file.parent.name.rpartition("-")[2]
        return int(number) if number.isascii() and number.isdigit() else 0

    return max(path.glob(f"*/{PLAN}"), key=attempt, default=path / PLAN)


def plan_of_rounds(earlier: Path) -> Path | None:
    """The plan of all rounds of an experiment that may end early, for an earlier plan of it; None for another one."""
    from bench.formats.plan import read_plan_file

    if all(run.sequential is None for run in read_plan_file(earlier).runs):
        return None
    first = earlier.with_name(FIRST)
    return first if first.is_file() else earlier


def artifact_of(document: PlanFile, shard: str) -> str:
    """The name of a shard's artifact, which no other workflow run and no other attempt at planning gives."""
    return f"{document.name}-{shard}"


def work_folder(name: str) -> Path:
    folder = Path(runner_variable("RUNNER_TEMP")) / "ml-dev-bench" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def settle_secret() -> bool:
    """Take a secret that is empty, or `none`, out of the environment: it is none. Whether there is one."""
    given = os.environ.get(SECRET, "").strip()
    if given in ("", "none"):
        os.environ.pop(SECRET, None)
        return False
    return True
