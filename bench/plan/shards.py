"""Batches of cells for machines, within what GitHub takes: 256 jobs of one matrix, 1 MB of outputs, hours of a job."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from bench.base.errors import UserError
from bench.base.text import counted
from bench.formats.plan import Cell, SkippedCell
from bench.formats.shards import MachineClass
from bench.plan.estimate import Estimate
from bench.plan.experiment import Experiment
from bench.plan.packing import makespan, pack
from bench.plan.selection import extras_for
from bench.plan.spread import Floats, Nights, promised_seconds

MAX_OUTPUT_BYTES = 1_000_000
"""GitHub counts a job's outputs about as UTF-16."""
_JOB_HOURS = {"hosted": 6, "self-hosted": 120, "local": None}
"""GitHub ends a job then (docs.github.com, "Actions limits": job execution time); nothing ends a local run."""


@dataclass(frozen=True)
class PlannedJob:
    """One cell to be placed: the run it belongs to, its number there, and what it will take."""

    run: str
    index: int
    cell: Cell
    estimate: Estimate


@dataclass(frozen=True)
class PackedShard:
    """The jobs of one machine."""

    id: str
    machine: MachineClass
    slots: int
    """Cells side by side."""
    seconds: float
    """Of the machine, its setting up included: promised, so that 95 of 100 shards are done by then."""
    jobs: list[PlannedJob]
    finish: Floats | None = field(default=None, repr=False, compare=False)
    """(draws,): the same in simulated nights, which are those of the other shards, too."""

    @property
    def expected_s(self) -> float:
        """The mean, for which the machine is paid."""
        return self.seconds if self.finish is None else float(self.finish.mean())


def packed_shards(jobs: Sequence[PlannedJob], experiment: Experiment, runner: str = "auto") -> list[PackedShard]:
    """All jobs in batches, the longest batch first; raises `UserError` when a cell fits on no machine.

    runner: what the machines are to GitHub: `hosted`, `self-hosted`, `local`, or `auto`, which goes by their labels. A
    batch that would outlast a job there is split, as far as the number of machines allows (see `check_job_limits`).
    The two arms of a case and trial are on one machine, one after the other.
    """
    classes: dict[str, list[PlannedJob]] = defaultdict(list)
    machines = {machine.name: machine for machine in experiment.machines}
    # In an order of its own, so that equal work is packed equally, in whatever order the jobs came.
    for job in sorted(jobs, key=lambda job: (job.cell.id, job.run)):
        classes[machine_for(job.cell, experiment.machines).name].append(job)
    shares = _shares(classes, machines, experiment)
    nights = Nights()
    made = []
    for name in sorted(classes):
        spare = experiment.max_jobs - sum(shares.values())
        most = min(machines[name].count, len(classes[name]), shares[name] + spare)
        batches = _in_time(machines[name], classes[name], shares[name], most, runner, nights)
        shares[name] = max(shares[name], len(batches))
        made += batches
    return sorted(made, key=lambda batch: (-batch.seconds, batch.id))


def _in_time(
    machine: MachineClass, jobs: Sequence[PlannedJob], count: int, most: int, runner: str, nights: Nights
) -> list[PackedShard]:
    """The jobs in `count` batches, or in up to `most` where fewer would outlast a job on the machine."""
    limit = _job_seconds(machine, runner)
    while True:
        made = [_promised(batch, nights) for batch in _packed_shards_of(machine, jobs, count)]
        if count >= most or max(batch.seconds for batch in made) <= limit:
            return made
        count = min(most, count + max(1, count // 4))


def _promised(batch: PackedShard, nights: Nights) -> PackedShard:
    cells = [(f"{job.run}/{job.cell.id}", job.estimate.seconds, job.estimate.spread) for job in batch.jobs]
    finish = nights.finish(cells, batch.slots) + batch.machine.setup_s
    return replace(batch, seconds=promised_seconds(finish), finish=finish)


def wall_seconds(made: Sequence[PackedShard]) -> float:
    """When the last of all machines is done, promised as each of them is: later than the promise of any one."""
    finishes = [batch.finish for batch in made if batch.finish is not None]
    if len(finishes) < len(made) or not made:
        return max((batch.seconds for batch in made), default=0.0)
    last = finishes[0]
    for finish in finishes[1:]:
        last = last.clip(min=finish)
    return promised_seconds(last)


def _runner_of(machine: MachineClass, runner: str) -> str:
    if runner != "auto":
        return runner
    return "self-hosted" if "self-hosted" in (label.lower() for label in machine.labels) else "hosted"


def _job_seconds(machine: MachineClass, runner: str) -> float:
    hours = _JOB_HOURS[_runner_of(machine, runner)]
    return math.inf if hours is None else hours * 3600.0


def check_job_limits(made: Sequence[PackedShard], runner: str, where: str) -> None:
    """Raise `UserError` when a batch may outlast a job of GitHub's; where: the file of the experiment."""
    for batch in made:
        limit = _job_seconds(batch.machine, runner)
        if batch.seconds <= limit:
            continue
        kind = _runner_of(batch.machine, runner)
        longest = max(batch.jobs, key=lambda job: job.estimate.seconds)
        alone = len(batch.jobs) == 1
        more = (
            "" if alone else f"raise count of machine {batch.machine.name!r} or max_jobs, take fewer trials or cases, "
        )
        own = "" if kind == "self-hosted" else "--runner self-hosted where the machines are your own (5 days), "
        raise UserError(
            f"shard {batch.id} ({counted(len(batch.jobs), 'cell')}, the longest {longest.cell.id}) takes up to "
            f"{batch.seconds / 3600:,.1f} hours, and GitHub ends a job on a {kind} runner after {limit / 3600:g}",
            where=where,
            remedy=f"{more}{'lower the limits of the case, or ' if alone else 'or '}say {own}"
            "--runner local where no job of GitHub's runs it",
        )


def skipped_cells(cells: Iterable[Cell], machines: Sequence[MachineClass]) -> list[SkippedCell]:
    """The cells for which no machine has what their case needs, with the cause.

    The planner knows of a machine only what its class says: `gpus`. Which libraries it has is found out there, and the
    cells for which one is missing become records of the outcome `skipped`.
    """
    cause = "needs a GPU, which no machine of the plan has (`machines: [{gpus: 1, ...}]`)"
    gpus = any(machine.gpus for machine in machines)
    return [SkippedCell(cell=cell.id, cause=cause) for cell in cells if cell.case.spec.needs.gpu and not gpus]


def github_matrix(made: Sequence[PackedShard], runner: str = "auto") -> str:
    """The value of a matrix output, one entry a shard; raises `UserError` when GitHub would refuse it."""
    include = [
        {
            "shard": batch.id,
            "machine": batch.machine.name,
            "labels": batch.machine.labels,
            "jobs": batch.slots,
            "extras": ",".join(extras_for(job.cell for job in batch.jobs)),
            # When GitHub ends the job: twice what is promised, since that may be wrong, and ten minutes for setting up.
            "minutes": int(min(math.ceil(batch.seconds * 2 / 60) + 10, _job_seconds(batch.machine, runner) / 60)),
        }
        for batch in made
    ]
    text = json.dumps({"include": include}, separators=(",", ":"))
    if len(text.encode("utf-16-le")) > MAX_OUTPUT_BYTES:
        raise UserError("the matrix is larger than GitHub takes", where="plan", remedy="use fewer or shorter labels")
    return text


def machine_for(cell: Cell, machines: Sequence[MachineClass]) -> MachineClass:
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


def _slots(machine: MachineClass, jobs: Sequence[PlannedJob]) -> int:
    """Cells side by side, by the largest of them: a neighbour must not change what a cell is measured to be."""
    limits = [job.cell.case.spec.limits for job in jobs]
    fits = [machine.cpus // max(it.cpus for it in limits), machine.memory_mb // max(it.memory_mb for it in limits)]
    if any(job.cell.case.spec.needs.gpu for job in jobs):
        fits.append(machine.gpus)
    return max(1, min(fits))


def _shares(
    classes: dict[str, list[PlannedJob]], machines: dict[str, MachineClass], experiment: Experiment
) -> dict[str, int]:
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
        wanted[name] = max(1, min(machines[name].count, len(_together(jobs)), math.ceil(work[name] / useful)))
    # A shard is taken from the class with the least work per shard, until all of them fit.
    while sum(wanted.values()) > experiment.max_jobs:
        reducible = [name for name in sorted(wanted) if wanted[name] > 1]
        least = min(reducible, key=lambda name: work[name] / wanted[name])
        wanted[least] -= 1
    return wanted


def _packed_shards_of(machine: MachineClass, jobs: Sequence[PlannedJob], count: int) -> list[PackedShard]:
    slots = _slots(machine, jobs)
    groups = _together(jobs)
    seconds = [sum(job.estimate.seconds for job in group) for group in groups]
    lanes = [lane for lane in pack(seconds, count * slots) if lane]
    lanes.sort(key=lambda lane: (-sum(seconds[index] for index in lane), lane))
    made = []
    for number in range(count):
        # Lanes of like length share a machine, so that none of it waits for its neighbour.
        own = lanes[number * slots : (number + 1) * slots]
        if own:
            chosen = sorted(index for lane in own for index in lane)
            # The longest first: what a machine starts last should be short.
            ordered = _ordered([(seconds[index], groups[index]) for index in chosen])
            took = makespan(seconds, own) + machine.setup_s
            made.append(PackedShard(f"{machine.name}-{number + 1:03d}", machine, slots, took, ordered))
    return made


def _together(jobs: Sequence[PlannedJob]) -> list[list[PlannedJob]]:
    """The jobs, the arms of one case and trial in one group; groups in the order of their first jobs."""
    groups: dict[tuple[str, str], list[PlannedJob]] = defaultdict(list)
    for job in jobs:
        # Of agents with different ids the cells share all but the first part and the last.
        pair = job.cell.id.partition("/")[2].removesuffix(f"/{job.cell.arm}") if job.cell.arm else job.cell.id
        groups[job.run, pair].append(job)
    return [sorted(group, key=lambda job: job.cell.arm) for group in groups.values()]


def _ordered(groups: Sequence[tuple[float, list[PlannedJob]]]) -> list[PlannedJob]:
    """By seconds, the longest first; of pairs every second one is turned round, which makes ABBA on this machine."""
    found: list[PlannedJob] = []
    pairs = 0
    for _, group in sorted(groups, key=lambda it: (-it[0], it[1][0].cell.id)):
        found += group[::-1] if pairs % 2 else group
        pairs += len(group) > 1
    return found
