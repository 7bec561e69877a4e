"""Where a record comes from: machine, limits, run and the plan of its experiment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from bench.base.model import Model
from bench.formats.amounts import Dollars, Fraction, Whole
from bench.formats.names import Digest, Name


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
