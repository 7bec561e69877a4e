"""The record: everything known about one finished cell, as one immutable JSON object."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from bench.base.model import Model, SeedText
from bench.formats.amounts import Dollars, Fraction, Seconds, Whole
from bench.formats.case_metric import Scale, headline_value
from bench.formats.help import HelpGiven
from bench.formats.observed import NameQuery, SelfReported

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
CostStatus = Literal["none", "exact", "estimated", "simulated", "unknown"]
"""`none`: no call was made. `simulated`: a replayed conversation, priced as if live. `unknown`: no price is known."""
Profile = Literal["mini", "full"]
Arm = Literal["", "base", "head"]
"""Which of two agents in one experiment; empty: the run compares nothing."""
SeedSource = Literal["secret", "public", "recorded", ""]
"""Derived from the experiment's secret; from public facts; kept by a replayed cassette; empty: an older record."""


def _safe_name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", value):
        raise ValueError("must be 1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit")
    return value


Name = Annotated[str, AfterValidator(_safe_name)]
"""A name that is safe in a path, a branch, a URL and a workflow."""
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


def _of_the_calendar(value: str) -> str:
    datetime.fromisoformat(value)
    return value


_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$"
Instant = Annotated[str, Field(pattern=_INSTANT), AfterValidator(_of_the_calendar)]
"""UTC, ISO 8601."""


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
    """False for oracle and nop, which prove the benchmark and are not competitors."""


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


class Note(Model):
    """A named finding with its evidence: a flag or a failure mode."""

    name: str
    evidence: str


class Tokens(Model):
    """Tokens of a model, normalised; None is unknown, which is not zero."""

    input_uncached: Whole | None = 0
    cache_read: Whole | None = 0
    cache_write: Whole | None = 0
    cache_write_1h: Whole | None = 0
    """The part of `cache_write` that is kept for an hour instead of five minutes."""
    output: Whole | None = 0
    reasoning: Whole | None = 0


class ModelUsage(Model):
    """What one model role cost."""

    role: str = "main"
    model: str
    """The name the run was asked to use, in litellm's spelling."""
    calls: Whole = 0
    """Successful calls. One is one step, for every agent alike."""
    failed_calls: Whole = 0
    refused_calls: Whole = 0
    retries: Whole = 0
    tokens: Tokens = Tokens()
    cost_usd: Dollars | None = 0.0
    cost_status: CostStatus = "none"
    price_version: str = ""
    asked: dict[str, Whole] = {}
    """By which names the `calls` asked for the model: its alias, its real name, a dated snapshot of it, or a name that
    agent.yaml maps to this role. Empty in an older record."""
    faults: dict[str, Whole] = {}
    """What went wrong upstream, by kind: a status such as `429`, `unreachable`, `lost`, `invalid`, `stream_broken`,
    `usage_unknown`."""
    at_risk_usd: Dollars = 0.0
    """The most that may have been billed beyond `cost_usd`: for answers that never came, or not to their end."""
    waited_s: Seconds = 0.0
    """Time lost to tries that failed and to the waits after them: wall time that is not the agent's working time."""


class Phase(Model):
    """One stretch of the cell's life."""

    name: Literal["prepare", "agent", "snapshot", "judge"]
    start: Instant
    seconds: Seconds


class Machine(Model):
    """The machine class: comparisons of time hold only within one fingerprint."""

    fingerprint: str
    system: str
    cpu: str
    cores: Whole
    memory_mb: Whole
    gpu: str = ""
    python: str


class LimitsSet(Model):
    """The limits in force."""

    agent_s: float
    grade_s: float
    memory_mb: Whole
    cpus: Whole
    processes: Whole
    disk_mb: Whole
    output_mb: Whole
    steps: Whole
    cost_usd: Dollars | None
    """None: the run had no dollar limit."""
    tokens: Whole | None = None
    """None: the case has no limit of tokens."""


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
    message: str
    at: Instant
    resumed: bool = False
    """The runner ended after this try; `--resume` brought the next one."""


class Sequential(Model):
    """How an experiment of two arms may end early: fixed before its first cell runs, and the same in all its records.

    A round is one trial of every case for both arms. After each round the case differences are looked at once
    (`bench.stats.sequential`).
    """

    cases: int = Field(ge=2)
    boundaries: list[Fraction] = Field(min_length=2)
    """One for each round: a one-sided p below it decides for *regression* or *improvement*."""
    exclusions: list[Fraction] = Field(min_length=2)
    """One for each round: a p of the drop below it excludes the drop."""
    margin: Fraction
    """The smallest difference of success that is a change."""
    drop: Fraction
    """The loss of success whose exclusion ends the experiment."""

    @model_validator(mode="after")
    def _each_round_has_both(self) -> Sequential:
        if len(self.boundaries) != len(self.exclusions):
            raise ValueError("boundaries and exclusions are not of the same number of rounds")
        return self

    @property
    def rounds(self) -> int:
        """The most there can be."""
        return len(self.boundaries)


class Provenance(Model):
    """Where the record comes from."""

    bench_version: str
    bench_commit: str = ""
    dirty: bool = False
    judge: str = Field("", max_length=40)
    """Version of judge and kit: verdicts of two of them are never put together. Empty: an older record."""
    suite: str = ""
    suite_version: str = ""
    run: Name
    run_url: str = ""
    workflow: str = ""
    sandbox: str
    isolated: bool
    """False: the agent ran as a plain process of this machine."""
    enforcement: str = ""
    """Which limits of the agent phase the kernel enforced, and which were watched only."""
    seed_secret: str = ""
    """Fingerprint of the secret in the seeds of the data: runs with another one met other data. Empty: without one."""
    image: Digest | Literal[""] = ""
    """Content id of the image that agents and their code saw as their system; empty: the machine's own."""
    packages: dict[str, str] = {}
    sequential: Sequential | None = None
    """Of an experiment that may end early; None: every planned trial runs."""


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
    def headline_value(self) -> float | None:
        """What the judge measured of the case's continuous metric; None where a guard failed, too."""
        return None if self.headline is None else headline_value(self.headline.name, self.metrics, self.checks)

    def to_line(self) -> str:
        """The record as one line of JSON, without a line break."""
        return self.model_dump_json(by_alias=True)
