"""What the steps of a matrix share: the plan among artifacts, their names, folders of the job and the secret."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from bench.base.errors import UserError
from bench.base.files import sha256_bytes, sha256_file
from bench.base.model import Model
from bench.cli.action_inputs import own_repository, runner_variable, use_token

if TYPE_CHECKING:
    from bench.formats.plan import PlanFile


SECRET = "MLDB_SEED_SECRET"


PLAN = "plan.json"


FIRST = "first.json"
"""Beside the plan of a later round: the plan of all rounds, which the looks need."""


PlanDigest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
"""What the job that planned has told of its plan, as an output that no other job can write; empty: it was not asked."""


class BranchInputs(Model):
    """Where records are, and where they go."""

    results_repository: str = Field("", alias="results-repository")
    results_branch: str = Field("mldb-results", alias="results-branch")

    def open(self, token: str) -> str:
        """The repository, which git reaches with the token from now on."""
        repository = self.results_repository or own_repository()
        use_token(token, repository)
        return repository


def plan_digest(plan: Path) -> str:
    """Of plan.json, and of the plan of all rounds where one lies beside it."""
    parts = [sha256_file(it) for it in (plan, plan.with_name(FIRST)) if it.is_file()]
    return sha256_bytes("\n".join(parts).encode()).removeprefix("sha256:")


def plan_in(path: Path, digest: str) -> Path:
    """plan.json at `path`, or in the folder that its artifact made.

    digest: what the job that planned has told. Every job of a workflow run can upload an artifact of any name, so that
    the name alone, which says of several attempts at planning the last, is its word; it is taken where `digest` is
    empty. Raises `UserError`.
    """
    if digest:
        return _plan_of(path, digest)
    if not path.is_dir() or (path / PLAN).is_file():
        return path / PLAN if path.is_dir() else path

    def attempt(file: Path) -> int:
        number = file.parent.name.rpartition("-")[2]
        return int(number) if number.isascii() and number.isdigit() else 0

    return max(path.glob(f"*/{PLAN}"), key=attempt, default=path / PLAN)


def _plan_of(path: Path, digest: str) -> Path:
    files = [path / PLAN, *sorted(path.glob(f"*/{PLAN}"))] if path.is_dir() else [path]
    found = next((file for file in files if file.is_file() and plan_digest(file) == digest), None)
    if found is None:
        fault = "holds no plan with the digest that the job which planned has told"
        remedy = "upload the folder `plan` whole, and pass the output `digest` of the step that made it"
        raise UserError(fault, where=path, remedy=remedy)
    return found


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
