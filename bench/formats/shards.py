"""The machines that a plan may use, and what one of them runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bench.base.model import Model
from bench.formats.case_parts import Count, Positive
from bench.formats.names import Name

MAX_JOBS = 256
"""Jobs of one matrix: a fixed limit of GitHub's."""
RunnerKind = Literal["auto", "hosted", "self-hosted", "local"]
"""What the machines are to GitHub; `auto` goes by their labels."""


class MachineClass(Model):
    """A kind of machine that shards may run on."""

    name: Name
    labels: list[Annotated[str, Field(min_length=1, max_length=100)]] = ["ubuntu-24.04"]
    """What `runs-on` asks for."""
    cpus: Count = 4
    memory_mb: Count = 16_000
    gpus: int = Field(0, ge=0)
    usd_per_hour: float = Field(0.0, ge=0)
    setup_s: float = Field(60.0, ge=0)
    """From the start of the job to that of its first cell."""
    count: int = Field(MAX_JOBS, ge=1, le=MAX_JOBS)
    """The most shards that may use this class."""


class Fleet(Model):
    """How an experiment's cells are divided among machines."""

    machines: list[MachineClass] = Field([MachineClass(name="cpu")], min_length=1)
    shard_minutes: Positive = 45.0
    """How long a shard should take, where the number of machines allows."""
    max_jobs: int = Field(MAX_JOBS, ge=1, le=MAX_JOBS)
    runner: RunnerKind = "auto"


class ShardPart(Model):
    """Cells of one run, by their numbers in its plan."""

    run: Name
    cells: list[int] = Field(min_length=1)


class Shard(Model):
    """What one machine runs."""

    id: Name
    machine: Name
    labels: list[str]
    jobs: int = Field(ge=1)
    """Cells side by side."""
    seconds: float = Field(ge=0)
    """Promised for 95 of 100 shards, the machine's setting up included."""
    gpu_hours: float = Field(0, ge=0)
    machine_usd: float = Field(0, ge=0)
    parts: list[ShardPart] = Field(min_length=1)
