"""The record: everything known about one finished cell, as one immutable JSON object."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from bench.base.model import Model, SeedText
from bench.formats.amounts import Dollars, Fraction, Seconds, Whole
from bench.formats.case_metric import Scale, headline_value
from bench.formats.help import HelpGiven
from bench.formats.model_usage import CostStatus, ModelUsage
from bench.formats.names import Digest, Instant, Name, Quoted
from bench.formats.note import Note
from bench.formats.observed import NameQuery, SelfReported
from bench.formats.provenance import LimitsSet, Machine, Provenance

RECORD_SCHEMA = 1
MOST_ARTIFACTS = 50
"""Files beside a record that it names."""

Outcome = Literal["graded", "infra", "interrupted", "skipped"]
StopReason = Literal[
    "finished",
    "gave_up",
    "crashed",
    "time_limit",
    "cost_limit",
    "token_limit",
    "step_limit",
    "memory_limit",
    "process_limit",
    "disk_limit",
    "output_limit",
]
Profile = Literal["mini", "full"]
Arm = Literal["", "base", "head"]
"""Which of two agents in one experiment; empty: the run compares nothing."""
SeedSource = Literal["secret", "public", "recorded", ""]
"""Derived from the experiment's secret; from public facts; kept by a replayed cassette; empty: an older record."""


def case_version(digest: str, judge: str) -> str:
    """Which results of a case mean the same: those of one digest, judged by one version of the judge."""
    return f"{digest}/{judge}"


class AgentRef(Model):
    """Which agent ran."""

    id: Name
    digest: Digest
    """Of the agent's folder and settings."""
    commit: str = ""
    """Commit of the agent's own repository, empty when it is not one."""
    ranked: bool = True
    """False for oracle and nop, which prove the benchmark and are not competitors; see `Record.competes`."""


class CaseRef(Model):
    """Which case, in which version: another digest is another series (see `Record.case_version`)."""

    id: Name
    category: Name
    title: str
    digest: Digest
    """Of what decides a verdict: task, workspace, checks, data and limits."""


class CheckResult(Model):
    """One judgement of the workspace."""

    id: str
    about: str
    """What the check shows, from its docstring."""
    weight: float = Field(ge=0)
    required: bool
    guard: bool
    value: Fraction
    """1 passed, 0 failed, between: partial credit."""
    message: str = ""
    """The evidence, when it did not pass."""
    seconds: Seconds
    origin: Literal["case", "framework"] = "case"

    @property
    def passed(self) -> bool:
        return self.value >= 1.0


class Metric(Model):
    """A continuous measurement by the judge."""

    name: str
    value: float
    unit: str = ""


class Claim(Model):
    """What the agent said of itself, beside what was measured."""

    name: str
    claimed: float | None
    """None: the claim was not a finite number."""
    measured: float
    tolerance: float = Field(ge=0)
    higher_is_better: bool = True
    overclaim: bool


class Phase(Model):
    """One stretch of the cell's life."""

    name: Literal["prepare", "agent", "snapshot", "judge"]
    start: Instant
    seconds: Seconds


class Artifact(Model):
    """A file kept beside the record."""

    name: str
    place: str
    """Relative to the run folder."""
    size: Whole
    digest: Digest


class Try(Model):
    """An earlier try of the same cell that brought no score."""

    outcome: Outcome
    cause: str
    message: Quoted
    at: Instant
    resumed: bool = False
    """The runner ended after this try; `--resume` brought the next one."""


class Record(Model):
    """One cell: agent x model x case x profile x trial."""

    schema_: Literal[1] = Field(1, alias="schema")
    cell: str
    """`agent/model/case/profile/trial`, and then `/arm` where there are two: unique within a run."""
    arm: Arm = ""
    agent: AgentRef
    case: CaseRef
    models: dict[str, str] = {}
    """Model per role; empty for an agent that asks for none."""
    profile: Profile
    trial: int = Field(ge=1, le=10**6)
    seed: Whole
    """The same for every agent at this case and trial, whatever the secret: cells of several runs are paired by it."""
    seed_source: SeedSource = ""
    """Where the seed of the data came from. Only `secret` keeps it from being known; `recorded` is never ranked."""
    seed_commitment: Digest | Literal[""] = ""
    """Fixes the data's seed, which is revealed after the experiment; empty without a secret."""
    judge_seed: SeedText | None = None
    """Seed of the judge's fresh inputs."""

    outcome: Outcome
    stop_reason: StopReason | None = None
    cause: str = ""
    """For `infra`, `interrupted` and `skipped`: a key of the failure table."""
    error: str = ""

    success: bool | None = None
    score: Fraction | None = None
    checks: list[CheckResult] = []
    milestones: list[str] = []
    """Ids of checks in the order in which a long task is done; empty where the case does not say."""
    metrics: list[Metric] = []
    headline: Scale | None = None
    """What the case's continuous metric is held against; None: it has none, or the record is older."""
    claims: list[Claim] = []
    overclaims: Whole = 0
    failure_modes: list[Note] = []
    flags: list[Note] = []
    name_queries: list[NameQuery] = Field([], max_length=200)
    """Not an attempt to leave: nothing was sent to an address. Empty in an older record."""

    help: HelpGiven | None = None
    """None: the agent could not ask; one that could is never ranked."""
    usage: list[ModelUsage] = []
    self_reported: SelfReported | None = None
    """None: the agent reports nothing, or the record is older."""
    cost_usd: Dollars | None = 0.0
    cost_status: CostStatus = "none"
    steps: Whole = 0

    phases: list[Phase] = []
    started: Instant
    finished: Instant
    machine: Machine
    limits: LimitsSet
    limits_hit: list[str] = []
    provenance: Provenance
    artifacts: list[Artifact] = []
    tries: list[Try] = []

    @model_validator(mode="after")
    def _only_graded_cells_have_a_score(self) -> Record:
        scored = self.score is not None and self.success is not None and self.stop_reason is not None
        if scored != (self.outcome == "graded"):
            raise ValueError("score, success and stop_reason belong to outcome `graded`, and to no other")
        return self

    @model_validator(mode="after")
    def _the_cell_names_its_arm(self) -> Record:
        if self.arm and not self.cell.endswith(f"/{self.arm}"):
            raise ValueError(f"arm {self.arm} is not the one that the cell names")
        return self

    @property
    def case_version(self) -> str:
        """What identifies a series of results of a case: see `case_version`."""
        return case_version(self.case.digest, self.provenance.judge)

    @property
    def competes(self) -> bool:
        """Whether it takes part in ranks and trends: of a ranked agent that could not read the runner's disk."""
        return self.agent.ranked and self.provenance.isolated

    @property
    def headline_value(self) -> float | None:
        """What the judge measured of the case's continuous metric; None where a guard failed, too."""
        return None if self.headline is None else headline_value(self.headline.name, self.metrics, self.checks)

    def to_line(self) -> str:
        """The record as one line of JSON, without a line break."""
        return self.model_dump_json(by_alias=True)
