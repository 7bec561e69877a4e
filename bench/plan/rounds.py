"""The shards of an experiment that may end early: a round is one trial of every case, and no shard has two rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from bench.plan.experiment import Experiment
from bench.plan.shards import PackedShard, PlannedJob, packed_shards


def packed_rounds(jobs: Sequence[PlannedJob], experiment: Experiment, runner: str = "auto") -> list[list[PackedShard]]:
    """The batches of each round, the first round first; raises as `packed_shards` does."""
    rounds: dict[int, list[PlannedJob]] = defaultdict(list)
    for job in jobs:
        rounds[job.cell.trial].append(job)
    return [
        [replace(batch, id=f"r{number}-{batch.id}") for batch in packed_shards(rounds[number], experiment, runner)]
        for number in sorted(rounds)
    ]
