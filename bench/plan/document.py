"""The plan as a file: what every shard runs, and what all of it is expected to take and cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from bench.base.errors import UserError
from bench.base.text import counted
from bench.base.times import now
from bench.formats.plan import Expected, PlanFile, PlannedCell, SkippedCell
from bench.formats.seeds import SeedSecret
from bench.formats.shards import RunnerKind, Shard, ShardPart
from bench.plan.estimate import Estimate
from bench.plan.experiment import Budget, Experiment
from bench.plan.selection import RunCells
from bench.plan.shards import PackedShard, wall_seconds


def plan_document(
    experiment: Experiment,
    parts: Sequence[RunCells],
    made: Sequence[PackedShard],
    sandbox: str,
    secret: SeedSecret | None = None,
    skipped: Sequence[SkippedCell] = (),
    runner: RunnerKind = "auto",
) -> PlanFile:
    """The plan file of these cells: `parts` by run, `made` by machine; sandbox: the name of the one they run in.

    skipped: what was asked for and is in no part. runner: what the machines are to GitHub.
    secret: of a new experiment's seeds. The missing cells of an earlier one keep its secret.
    """
    facts = (secret or SeedSecret()).facts(sum(len(part.cells) for part in parts))
    runs = [part.plan(sandbox) for part in parts]
    return PlanFile(
        name=experiment.name,
        created=now(),
        runs=[run if part.earlier else run.model_copy(update=facts) for part, run in zip(parts, runs, strict=True)],
        shards=[_shard(batch) for batch in made],
        expected=expected_of(made),
        skipped=list(skipped),
        fleet=experiment.fleet(runner),
    )


def with_agents_below(document: PlanFile, folder: Path) -> PlanFile:
    """The plan with agents of `folder` named relative to it: jobs of other machines have that folder elsewhere."""

    def relative(planned: PlannedCell) -> PlannedCell:
        path = Path(planned.agent)
        # Without the full stop, the name of a file beside it would pass for the id of a shipped agent.
        below = path.is_absolute() and path.is_relative_to(folder)
        return planned.model_copy(update={"agent": f"./{path.relative_to(folder)}"}) if below else planned

    runs = [run.model_copy(update={"cells": [relative(planned) for planned in run.cells]}) for run in document.runs]
    return document.model_copy(update={"runs": runs})


def _shard(batch: PackedShard) -> Shard:
    parts: dict[str, list[int]] = defaultdict(list)
    for job in batch.jobs:
        parts[job.run].append(job.index)
    hours = batch.expected_s / 3600
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


def expected_of(made: Sequence[PackedShard]) -> Expected:
    """Sums over all shards."""
    estimates: list[Estimate] = [job.estimate for batch in made for job in batch.jobs]
    return Expected(
        cells=len(estimates),
        shards=len(made),
        wall_s=round(wall_seconds(made), 1),
        cell_hours=round(sum(it.seconds for it in estimates) / 3600, 3),
        gpu_hours=round(sum(batch.expected_s / 3600 * batch.machine.gpus for batch in made), 3),
        model_usd=round(sum(it.usd or 0.0 for it in estimates), 2),
        unpriced_cells=sum(it.usd is None for it in estimates),
        machine_usd=round(sum(batch.expected_s / 3600 * batch.machine.usd_per_hour for batch in made), 2),
        sources=dict(Counter(it.source for it in estimates)),
    )


def check_budget(expected: Expected, budget: Budget) -> None:
    """Raise `UserError` when the plan is expected to take more than the budget, or that cannot be told."""
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
            f"no price is known for {counted(expected.unpriced_cells, 'cell')}, "
            f"so the budget of {budget.usd:g} USD cannot be held",
            where="plan",
            remedy="name the model's price (docs/gateway.md), or drop budget.usd",
        )
