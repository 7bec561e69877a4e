"""Batches of cells for machines, within what GitHub takes: 256 jobs of one matrix and 1 MB of outputs."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bench.cell import Cell
from bench.errors import UserError
from bench.plan.estimate import Estimate
from bench.plan.experiment import Experiment, MachineClass
from bench.plan.packing import makespan, pack

MAX_OUTPUT_BYTES = 1_000_000
"""GitHub counts a job's outputs about as UTF-16."""


@dataclass(frozen=True)
class Job:
    """One cell to be placed: the run it belongs to, its number there, and what it will take."""

    run: str
    index: int
    cell: Cell
    estimate: Estimate


@dataclass(frozen=True)
class Batch:
    """The jobs of one machine."""

    id: str
    machine: MachineClass
    slots: int
    """Cells side by side."""
    seconds: float
    """Of the machine, its setting up included."""
    jobs: list[Job]


def batches(jobs: Sequence[Job], experiment: Experiment) -> list[Batch]:
    """All jobs in batches, the longest batch first; raises `UserError` when a cell fits on no machine."""
    classes: dict[str, list[Job]] = defaultdict(list)
    machines = {machine.name: machine for machine in experiment.machines}
    for job in sorted(jobs, key=lambda job: (job.cell.id, job.run)):
        classes[_machine_for(job.cell, experiment.machines).name].append(job)
    shares = _shares(classes, machines, experiment)
    made = [batch for name in sorted(classes) for batch in _batches_of(machines[name], classes[name], shares[name])]
    return sorted(made, key=lambda batch: (-batch.seconds, batch.id))


def matrix(made: Sequence[Batch]) -> str:
    """The value of a matrix output, one entry a shard; raises `UserError` when GitHub would refuse it."""
    include = [
        {
            "shard": batch.id,
            "machine": batch.machine.name,
            "labels": batch.machine.labels,
            "jobs": batch.slots,
            "minutes": math.ceil(batch.seconds * 2 / 60) + 10,
        }
        for batch in made
    ]
    text = json.dumps({"include": include}, separators=(",", ":"))
    if len(text.encode("utf-16-le")) > MAX_OUTPUT_BYTES:
        raise UserError("the matrix is larger than GitHub takes", where="plan", remedy="use fewer or shorter labels")
    return text


def _machine_for(cell: Cell, machines: Sequence[MachineClass]) -> MachineClass:
    """The cheapest class on which the cell fits, the first of equals."""
    limits, needs = cell.case.spec.limits, cell.case.spec.needs
    fitting = [
        machine
        for machine in machines
        if machine.cpus >= limits.cpus and machine.memory_mb >= limits.memory_mb and machine.gpus >= int(needs.gpu)
    ]
    if not fitting:
        raise UserError(
            f"case {cell.case.id!r} needs {limits.cpus} CPUs, {limits.memory_mb} MiB{' and a GPU' * needs.gpu}",
            where="plan",
            remedy="add a machine with so much, or leave the case out",
        )
    return min(fitting, key=lambda machine: machine.usd_per_hour)


def _slots(machine: MachineClass, jobs: Sequence[Job]) -> int:
    """Cells side by side, by the largest of them: a neighbour must not change what a cell is measured to be."""
    limits = [job.cell.case.spec.limits for job in jobs]
    fits = [machine.cpus // max(it.cpus for it in limits), machine.memory_mb // max(it.memory_mb for it in limits)]
    if any(job.cell.case.spec.needs.gpu for job in jobs):
        fits.append(machine.gpus)
    return max(1, min(fits))


def _shares(classes: dict[str, list[Job]], machines: dict[str, MachineClass], experiment: Experiment) -> dict[str, int]:
    """How many shards each class gets: as many as its work wants, and no more in all than the matrix may have."""
    if len(classes) > experiment.max_jobs:
        raise UserError(
            f"{len(classes)} kinds of machines do not fit into {experiment.max_jobs} jobs",
            where="plan",
            remedy="raise max_jobs",
        )
    work = {
        name: sum(job.estimate.seconds for job in jobs) / _slots(machines[name], jobs) for name, jobs in classes.items()
    }
    wanted = {}
    for name, jobs in classes.items():
        useful = max(experiment.shard_minutes * 60 - machines[name].setup_s, 60.0)
        wanted[name] = max(1, min(machines[name].count, len(jobs), math.ceil(work[name] / useful)))
    # Taken from whoever has the least work per shard, until it fits.
    while sum(wanted.values()) > experiment.max_jobs:
        reducible = [name for name in sorted(wanted) if wanted[name] > 1]
        least = min(reducible, key=lambda name: work[name] / wanted[name])
        wanted[least] -= 1
    return wanted


def _batches_of(machine: MachineClass, jobs: Sequence[Job], count: int) -> list[Batch]:
    slots = _slots(machine, jobs)
    seconds = [job.estimate.seconds for job in jobs]
    lanes = [lane for lane in pack(seconds, count * slots) if lane]
    lanes.sort(key=lambda lane: (-sum(seconds[index] for index in lane), lane))
    made = []
    for number in range(count):
        # Lanes of like length share a machine, so that none of it waits for its neighbour.
        own = lanes[number * slots : (number + 1) * slots]
        if own:
            chosen = sorted(index for lane in own for index in lane)
            # The longest first: what a machine starts last should be short.
            ordered = sorted((jobs[index] for index in chosen), key=lambda job: (-job.estimate.seconds, job.cell.id))
            took = makespan(seconds, own) + machine.setup_s
            made.append(Batch(f"{machine.name}-{number + 1:03d}", machine, slots, took, ordered))
    return made
