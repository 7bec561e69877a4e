"""What is to be run: a cell, the plan of one run (run.json), and runs divided among machines (plan.json).

Also what a cell's name and the number that pairs it are made of.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.foreign_git import commit_of
from bench.base.model import Model, read_json
from bench.base.text import counted, meant
from bench.base.times import now
from bench.formats.agent import Agent
from bench.formats.case import Case
from bench.formats.help import HelpOffer
from bench.formats.judge_version import JUDGE
from bench.formats.names import Digest, Instant, Name
from bench.formats.provenance import Sequential
from bench.formats.record import Arm, Profile
from bench.formats.seeds import is_replayed
from bench.formats.shards import Fleet, Shard, ShardPart

ANY_SANDBOX = "auto"
"""A plan may leave the choice to each machine; `process`, which does not isolate, is never chosen."""
Source = Literal["measured", "agent", "case", "limit"]
"""Of the same agent, model and case; of the agent on other cases, in proportion to their limits; of other agents on
the case; of nothing but the case's limits."""


class PlannedCell(Model):
    """One cell as it was planned."""

    cell: str
    agent: str
    """Id, or path of an agent.yaml."""
    agent_digest: Digest
    agent_commit: str | None = None
    """Commit of the agent's repository, empty outside of git; None: planned by a version that did not say."""
    settings: dict[str, str] = {}
    """Variables in which the agent differs from what its folder says."""
    models: dict[str, str]
    case: Name
    case_digest: Digest
    trial: int
    arm: Arm = ""
    ranked: bool | None = None
    """Whether its record competes; None: planned by a version that did not say."""


class RunPlan(Model):
    """The content of run.json: enough to go on after a kill."""

    schema_: Literal[1] = Field(1, alias="schema")
    run: Name
    created: Instant
    suite: str
    suite_version: str
    profile: Profile
    sandbox: str
    judge: str = ""
    """Version of judge and kit that is to judge all cells; empty: planned by a version that did not say."""
    seed_secret: str = ""
    """Fingerprint of the secret in the seeds of the data; empty: without one."""
    experiment: str = ""
    """Name that is mixed into the secret: runs with the same name and secret meet the same data."""
    experiment_cells: int = Field(0, ge=0)
    """Cells that were planned together, of all runs and shards: before they have ended, no seed is revealed."""
    seeds_shared: bool = False
    """The secret was given from outside: runs that were not planned together may have it, too."""
    sequential: Sequential | None = None
    """Of two arms that may end early: then the trials are rounds, and those after the verdict are never run."""
    help: HelpOffer | None = None
    """Who answers the agents' questions; None: they cannot ask."""
    earlier_attempts: int = Field(0, ge=0)
    """Added to the attempt under which its records are stored: other cells of this run may have been stored before."""
    cells: list[PlannedCell]

    @property
    def seed_facts(self) -> dict[str, object]:
        """What it says of its secret."""
        return {name: getattr(self, name) for name in ("seed_secret", "experiment", "experiment_cells", "seeds_shared")}


def make_run_plan(
    run: str, suite: str, suite_version: str, profile: Profile, sandbox: str, cells: list[Cell]
) -> RunPlan:
    """The plan of a new run."""
    folders = {cell.agent.digest: cell.agent.folder for cell in cells}
    commits = {digest: commit_of(folder)[0] for digest, folder in folders.items()}
    planned = [
        PlannedCell(
            cell=cell.id,
            agent=cell.agent.folder.name if cell.agent.trusted else str(cell.agent.file),
            settings=dict(cell.agent.settings),
            trial=cell.trial,
            arm=cell.arm,
            agent_digest=cell.agent.digest,
            agent_commit=commits[cell.agent.digest],
            models=cell.models,
            case=cell.case.id,
            case_digest=cell.case.digest,
            ranked=cell.ranked,
        )
        for cell in cells
    ]
    return RunPlan(
        run=run,
        created=now(),
        suite=suite,
        suite_version=suite_version,
        profile=profile,
        sandbox=sandbox,
        judge=JUDGE,
        cells=planned,
    )


class Expected(Model):
    """What a plan is expected to come to."""

    cells: int
    shards: int
    wall_s: float
    """Until the last shard is done, promised for 95 of 100 such plans."""
    cell_hours: float
    gpu_hours: float
    model_usd: float
    """Of the cells whose cost is known or bounded."""
    unpriced_cells: int
    """Cells of models without a known price: they are in no sum of dollars."""
    machine_usd: float
    sources: dict[Source, int]
    """Cells by what their estimate rests on."""

    @property
    def usd(self) -> float:
        return self.model_usd + self.machine_usd


class Detection(Model):
    """What a budget buys: the chance that `compare` calls the drop a regression. It holds of this selection alone."""

    estimate_of: Literal["this selection"] = "this selection"
    """Of the chosen cases, not of the suite: they were chosen by what they tell for their price."""
    drop: float
    """Of the mean success over the chosen cases."""
    budget_usd: float
    cases: list[Name]
    trials: int
    """A case and arm."""
    power: float
    power_interval: tuple[float, float]
    """95%: history is a sample."""
    usd: float
    usd_interval: tuple[float, float]
    """In which the bill lies with 95%; its end is within the budget."""
    unknown_cases: int
    """Chosen cases that history does not tell of."""
    strata: dict[str, tuple[int, int]]
    """Category, difficulty and length to cases chosen, and all."""
    enough_usd: float | None
    """Budget of the cheapest plan with a chance of 80%, be it larger or smaller than this one; None: none was found."""


class SkippedCell(Model):
    """A cell that was asked for, and that no machine of the plan can run."""

    cell: str
    cause: str


class PlanFile(Model):
    """The content of plan.json."""

    schema_: Literal[1] = Field(1, alias="schema")
    name: Name
    created: Instant
    runs: list[RunPlan] = Field(min_length=1)
    shards: list[Shard] = Field(min_length=1)
    expected: Expected
    skipped: list[SkippedCell] = []
    """In no run and no shard."""
    detection: Detection | None = None
    """Of a plan that was made for a budget."""
    fleet: Fleet | None = None
    """Where the shards may run, which a plan of missing cells inherits; None: planned by a version that did not say."""

    @model_validator(mode="after")
    def _every_cell_is_in_one_shard(self) -> PlanFile:
        sizes = {run.run: len(run.cells) for run in self.runs}
        seen = Counter((part.run, index) for shard in self.shards for part in shard.parts for index in part.cells)
        whole = {(run, index) for run, size in sizes.items() for index in range(size)}
        if len(sizes) < len(self.runs) or seen.keys() != whole or (seen and max(seen.values()) > 1):
            raise ValueError("every cell of every run belongs to exactly one shard")
        if len({shard.id for shard in self.shards}) < len(self.shards):
            raise ValueError("two shards have the same id")
        return self

    def shard(self, name: str) -> Shard:
        """The shard called `name`; raises `UserError`."""
        found = next((shard for shard in self.shards if shard.id == name), None)
        if found is None:
            has = f"the plan has {counted(len(self.shards), 'shard')}, the first is {self.shards[0].id}"
            remedy = f"{has}; {meant(name, (shard.id for shard in self.shards[:1000]))}"
            raise UserError(f"no shard {name!r}", where="run-shard", remedy=remedy)
        return found

    def part(self, part: ShardPart) -> RunPlan:
        """The plan of the run, with the part's cells alone."""
        whole = next(run for run in self.runs if run.run == part.run)
        return whole.model_copy(update={"cells": [whole.cells[index] for index in part.cells]})


def read_plan_file(path: Path) -> PlanFile:
    """The plan at `path`; raises `UserError`."""
    return read_json(path, PlanFile, remedy="make one with `plan --out`")


@dataclass(frozen=True)
class Cell:
    """agent x model x case x profile x trial."""

    agent: Agent
    models: dict[str, str]
    case: Case
    """With the facts that hold in `profile`, however the cell is made."""
    profile: Profile
    trial: int
    arm: Arm = ""
    """Tells two agents of one experiment apart, which may well have the same id."""
    helped: bool = False
    """Its agent can ask for help."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "case", self.case.for_profile(self.profile))

    @cached_property
    def id(self) -> str:
        """Unique within a run, and readable."""
        # Of several roles all models: two runs of an agent may differ in one of them.
        model = "+".join(self.models.values()) or "none"
        arm = f"/{self.arm}" if self.arm else ""
        return f"{self.agent.id}/{model}/{self.case.id}/{self.profile}/{self.trial}{arm}"

    @property
    def ranked(self) -> bool:
        """Whether its record competes."""
        return is_ranked(self.agent, self.models, helped=self.helped)

    @property
    def slug(self) -> str:
        """The id as a file name, kept apart from others by a piece of its digest."""
        return slug_of(self.id)


def is_ranked(agent: Agent, models: Mapping[str, str], *, helped: bool = False) -> bool:
    """Whether records of `agent` with these models compete; none does that could ask for help."""
    return agent.spec.ranked and not is_replayed(models) and not helped


def slug_of(cell: str) -> str:
    """A cell's id as a file name."""
    # The digest tells ids apart that are equal after the replacement and the cut; file systems take 255 bytes.
    return f"{re.sub(r'[^A-Za-z0-9._+-]', '_', cell)[:120]}.{sha256_bytes(cell.encode())[7:15]}"


def public_seed(suite_version: str, case: str, trial: int) -> int:
    """The number by which cells of several runs are paired, 32 bits; the data's seed is `seeds.data_seed`.

    Cassettes without a seed of their own were made when it was the data's seed as well; they keep it.
    """
    text = f"{suite_version}\0{case}\0{trial}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")
