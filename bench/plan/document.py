"""The plan as a file: what every shard runs, and what all of it is expected to take and cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from bench.clock import now
from bench.errors import UserError
from bench.plan.estimate import Estimate, Source
from bench.plan.expand import Part
from bench.plan.experiment import Budget, Experiment
from bench.plan.shards import Batch
from bench.record import Instant, Name
from bench.rundir import RunPlan, plan_of
from bench.schema import Model, explain


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
    """Expected, the machine's setting up included."""
    gpu_hours: float = Field(0, ge=0)
    machine_usd: float = Field(0, ge=0)
    parts: list[ShardPart] = Field(min_length=1)


class Expected(Model):
    """What a plan is expected to come to."""

    cells: int
    shards: int
    wall_s: float
    """Of the longest shard."""
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


class PlanFile(Model):
    """The content of plan.json."""

    schema_: Literal[1] = Field(1, alias="schema")
    name: Name
    created: Instant
    runs: list[RunPlan] = Field(min_length=1)
    shards: list[Shard] = Field(min_length=1)
    expected: Expected

    @model_validator(mode="after")
    def _every_cell_is_in_one_shard(self) -> PlanFile:
        sizes = {run.run: len(run.cells) for run in self.runs}
        seen = Counter((part.run, index) for shard in self.shards for part in shard.parts for index in part.cells)
        whole = {(run, index) for run, size in sizes.items() for index in range(size)}
        if len(sizes) < len(self.runs) or seen.keys() != whole or (seen and max(seen.values()) > 1):
            raise ValueError("every cell of every run belongs to exactly one shard")
        if len({shard.id for shard in self.shards}) < len(self.shards):
            raise ValueError("two shards have one id")
        return self

    def shard(self, name: str) -> Shard:
        """The shard called `name`; raises `UserError`."""
        for shard in self.shards:
            if shard.id == name:
                return shard
        count, first = len(self.shards), self.shards[0].id
        raise UserError(f"no shard {name!r}", where="run-shard", remedy=f"there are {count}, such as {first}")

    def part(self, part: ShardPart) -> RunPlan:
        """The plan of the run, with the part's cells alone."""
        whole = next(run for run in self.runs if run.run == part.run)
        return whole.model_copy(update={"cells": [whole.cells[index] for index in part.cells]})


def document(experiment: Experiment, parts: Sequence[Part], made: Sequence[Batch], sandbox: str) -> PlanFile:
    """The plan of these batches."""
    runs = [plan_of(part.run, part.suite.id, part.suite.version, part.profile, sandbox, part.cells) for part in parts]
    return PlanFile(
        name=experiment.name, created=now(), runs=runs, shards=[_shard(batch) for batch in made], expected=expect(made)
    )


def _shard(batch: Batch) -> Shard:
    parts: dict[str, list[int]] = defaultdict(list)
    for job in batch.jobs:
        parts[job.run].append(job.index)
    hours = batch.seconds / 3600
    return Shard(
        id=batch.id,
        machine=batch.machine.name,
        labels=batch.machine.labels,
        jobs=batch.slots,
        seconds=round(batch.seconds, 1),
        gpu_hours=round(hours * batch.machine.gpus, 4),
        machine_usd=round(hours * batch.machine.usd_per_hour, 4),
        parts=[ShardPart(run=run, cells=cells) for run, cells in parts.items()],
    )


def expect(made: Sequence[Batch]) -> Expected:
    """Sums over all batches."""
    estimates: list[Estimate] = [job.estimate for batch in made for job in batch.jobs]
    return Expected(
        cells=len(estimates),
        shards=len(made),
        wall_s=round(max((batch.seconds for batch in made), default=0.0), 1),
        cell_hours=round(sum(it.seconds for it in estimates) / 3600, 3),
        gpu_hours=round(sum(batch.seconds / 3600 * batch.machine.gpus for batch in made), 3),
        model_usd=round(sum(it.usd or 0.0 for it in estimates), 2),
        unpriced_cells=sum(it.usd is None for it in estimates),
        machine_usd=round(sum(batch.seconds / 3600 * batch.machine.usd_per_hour for batch in made), 2),
        sources=dict(Counter(it.source for it in estimates)),
    )


def check_budget(expected: Expected, budget: Budget) -> None:
    """Raise `UserError` when the plan is expected to come to more than it may."""
    for what, value, limit in (
        ("USD", expected.usd, budget.usd),
        ("GPU hours", expected.gpu_hours, budget.gpu_hours),
    ):
        if limit is not None and value > limit:
            raise UserError(
                f"is expected to take {value:.2f} {what}, over the budget of {limit:g}",
                where="plan",
                remedy="take fewer trials or cases, mode=changed or mode=rotating, or raise the budget",
            )
    if budget.usd is not None and expected.unpriced_cells:
        raise UserError(
            f"{expected.unpriced_cells} cells have no known price, so the budget of {budget.usd:g} USD cannot be held",
            where="plan",
            remedy="name the model's price (docs/gateway.md), or drop budget.usd",
        )


def read_plan_file(path: Path) -> PlanFile:
    """The plan at `path`; raises `UserError`."""
    try:
        return PlanFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, remedy="make one with `plan --out`") from None
    except ValidationError as error:
        raise UserError(explain(error, PlanFile), where=path, remedy="make a new one with `plan --out`") from None
