"""Shards: every cell in exactly one, never over a limit, and the last machine done early."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import UserError
from bench.formats.agent import Agent, load_agent
from bench.formats.case import Case
from bench.formats.plan import Cell
from bench.plan.estimate import Estimate
from bench.plan.experiment import Experiment
from bench.plan.packing import lower_bound, makespan, pack
from bench.plan.shards import MAX_OUTPUT_BYTES, PackedShard, PlannedJob, github_matrix, packed_shards
from tests.helpers.cells import make_agent, make_case

SECONDS = st.lists(st.floats(0, 10_000, allow_nan=False), max_size=80)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    root = tmp_path_factory.mktemp("cases")
    facts: dict[str, dict[str, Any]] = {
        "small": {"limits": {"cpus": 1, "memory_mb": 1000}},
        "wide": {"limits": {"cpus": 4, "memory_mb": 4000}},
        "heavy": {"limits": {"cpus": 1, "memory_mb": 30_000}},
        "graphic": {"needs": {"gpu": True}},
    }
    return {name: make_case(root, id=name, **fact) for name, fact in facts.items()}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    return load_agent(make_agent(tmp_path_factory.mktemp("agents"), "pass").folder)


def jobs_of(agent: Agent, cases: list[Case], seconds: list[float]) -> list[PlannedJob]:
    return [
        PlannedJob(
            "run", index, Cell(agent, {}, cases[index % len(cases)], "mini", index + 1), Estimate(took, 0.0, "measured")
        )
        for index, took in enumerate(seconds)
    ]


def experiment(*machines: dict[str, Any], **facts: Any) -> Experiment:
    return Experiment.model_validate({"machines": list(machines), **facts})


CPU = {"name": "cpu", "cpus": 4, "memory_mb": 16_000, "setup_s": 0}
BIG = {"name": "big", "cpus": 8, "memory_mb": 64_000, "usd_per_hour": 1.0, "setup_s": 30}
GPU = {"name": "gpu", "cpus": 8, "memory_mb": 64_000, "gpus": 2, "usd_per_hour": 3.0, "setup_s": 120}


@given(SECONDS, st.integers(1, 20))
def test_a_packing_holds_every_job_once_and_keeps_grahams_promise(seconds: list[float], bins: int) -> None:
    packed = pack(seconds, bins)
    assert len(packed) == bins
    assert sorted(index for group in packed for index in group) == list(range(len(seconds)))
    assert makespan(seconds, packed) <= lower_bound(seconds, bins) * (2 - 1 / bins) + 1e-6
    assert pack(seconds, bins) == packed


@given(st.lists(st.integers(1, 30), min_size=1, max_size=7), st.integers(1, 3))
def test_small_packings_are_near_the_best_there_is(seconds: list[int], bins: int) -> None:
    best = min(
        max(sum(took for took, at in zip(seconds, places, strict=True) if at == number) for number in range(bins))
        for places in product(range(bins), repeat=len(seconds))
    )
    assert lower_bound(seconds, bins) <= best + 1e-9
    assert makespan(seconds, pack(seconds, bins)) <= best * 11 / 9 + 1e-9


def test_multifit_mends_what_the_longest_first_rule_gets_wrong() -> None:
    assert makespan([3, 3, 2, 2, 2], pack([3, 3, 2, 2, 2], 2)) == 6


@pytest.mark.parametrize("seed", range(5))
def test_many_cells_are_within_a_twentieth_of_the_bound(seed: int) -> None:
    draw = random.Random(seed)
    seconds = [min(draw.lognormvariate(5, 1), 3600) for _ in range(15_000)]
    packed = pack(seconds, 256)
    assert makespan(seconds, packed) <= 1.05 * lower_bound(seconds, 256)


@given(
    seconds=st.lists(st.floats(1, 7200), min_size=1, max_size=120),
    kinds=st.sets(st.sampled_from(["small", "wide", "heavy", "graphic"]), min_size=1),
    max_jobs=st.integers(3, 40),
    minutes=st.integers(1, 300),
    counts=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
)
def test_no_limit_is_ever_passed(
    agent: Agent, cases: dict[str, Case], seconds: list[float], kinds: set[str], max_jobs: int, minutes: int,
    counts: tuple[int, int, int],
) -> None:  # fmt: skip
    machines = [{**machine, "count": count} for machine, count in zip((CPU, BIG, GPU), counts, strict=True)]
    jobs = jobs_of(agent, [cases[kind] for kind in sorted(kinds)], seconds)
    made = packed_shards(jobs, experiment(*machines, max_jobs=max_jobs, shard_minutes=minutes))
    assert sorted(job.index for batch in made for job in batch.jobs) == list(range(len(seconds)))
    assert len(made) <= max_jobs
    assert len({batch.id for batch in made}) == len(made)
    for batch in made:
        assert sum(other.machine.name == batch.machine.name for other in made) <= batch.machine.count
        _fits(batch)
    assert len(github_matrix(made).encode("utf-16-le")) <= MAX_OUTPUT_BYTES


def _fits(batch: PackedShard) -> None:
    limits = [job.cell.case.spec.limits for job in batch.jobs]
    assert batch.slots * max(it.cpus for it in limits) <= batch.machine.cpus
    assert batch.slots * max(it.memory_mb for it in limits) <= batch.machine.memory_mb
    gpus = sum(job.cell.case.spec.needs.gpu for job in batch.jobs)
    assert not gpus or batch.slots <= batch.machine.gpus


def test_the_order_of_the_cells_does_not_matter(agent: Agent, cases: dict[str, Case]) -> None:
    jobs = jobs_of(agent, [cases["small"]], [float(number % 7 + 1) * 60 for number in range(50)])
    shuffled = random.Random(1).sample(jobs, len(jobs))
    told = [
        [(batch.id, [job.cell.id for job in batch.jobs]) for batch in packed_shards(given, experiment(CPU))]
        for given in (jobs, shuffled)
    ]
    assert told[0] == told[1]


def test_a_cell_goes_to_the_cheapest_machine_that_holds_it(agent: Agent, cases: dict[str, Case]) -> None:
    jobs = jobs_of(agent, list(cases.values()), [60.0] * 8)
    made = packed_shards(jobs, experiment(GPU, BIG, CPU))
    found = {job.cell.case.id: batch.machine.name for batch in made for job in batch.jobs}
    assert found == {"small": "cpu", "wide": "cpu", "heavy": "big", "graphic": "gpu"}


def test_what_fits_nowhere_is_said(agent: Agent, cases: dict[str, Case]) -> None:
    with pytest.raises(UserError, match="'graphic' needs 1 CPUs, 400 MiB and a GPU"):
        packed_shards(jobs_of(agent, [cases["graphic"]], [1.0]), experiment(CPU))
    with pytest.raises(UserError, match="3 kinds of machines do not fit into 2 jobs"):
        packed_shards(jobs_of(agent, list(cases.values()), [1.0] * 4), experiment(CPU, BIG, GPU, max_jobs=2))


def test_a_matrix_too_large_for_github_is_refused(agent: Agent, cases: dict[str, Case]) -> None:
    machine = {**CPU, "labels": ["x" * 100] * 30, "cpus": 1}
    jobs = jobs_of(agent, [cases["small"]], [7200.0] * 256)
    made = packed_shards(jobs, experiment(machine))
    assert len(made) == 256
    with pytest.raises(UserError, match="larger than GitHub takes"):
        github_matrix(made)
    small = json.loads(github_matrix(packed_shards(jobs, experiment(CPU))))
    assert {entry["labels"][0] for entry in small["include"]} == {"ubuntu-24.04"}
