"""A night on machines of EC2, from plan to site: one of them is taken back, and the next night completes it.

moto keeps the machines, and a process of the test is each of them (`tests.helpers.instance`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.machines.ec2.prices import shipped_prices
from bench.sandbox.choose import probe_bubblewrap
from bench.store.branch import ResultsBranch
from tests.helpers.aws import REGIONS, Cloud, cloud
from tests.helpers.cells import not_here
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.instance import RUNNER_FOLDER, Instance, until_over
from tests.helpers.machines import options_for
from tests.workflows.rehearsal.machine_night import CELLS, REPOSITORY, SECRET, MachineNight, Repository

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1800)]

MACHINE = {"name": "box", "labels": ["self-hosted"], "cpus": 1, "memory_mb": 4096, "setup_s": 0, "count": 2}
BUDGET_USD = 4.0
_ROUNDED = 0.005
"""The quote is shown in cents."""


@dataclass
class World:
    """A repository, its results, and the two services that it needs."""

    cloud: Cloud
    hub: Service
    repository: Repository
    booted_before: set[str] = field(default_factory=set)

    def night(self, number: int, missing_from: MachineNight | None = None) -> MachineNight:
        self.hub.actions.make_run(number, "a" * 40)["status"] = "in_progress"
        return MachineNight(self.repository, number, missing_from)

    def booted(self, night: MachineNight) -> dict[str, Instance]:
        """A machine for each entry of the matrix, by its shard, each with the job of its own label before it."""
        for entry in night.provision(BUDGET_USD):
            (label,) = entry["labels"]
            self.hub.runners.service.queue(label, night.job(entry))
        made = [(region, it.id) for region in REGIONS for it in self.cloud.backend(region).all_instances()]
        found = [Instance(region, name, night.folder / name) for region, name in made if name not in self.booted_before]
        self.booted_before |= {it.name for it in found}
        return {it.tags["mldb-shard"]: it for it in found}

    def left(self) -> list[str]:
        records = [str(it["name"]) for it in self.hub.runners.records.values()]
        return self.cloud.left_over(REPOSITORY) + records


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    if not probe_bubblewrap().works:
        not_here("a machine grades its cells in bubblewrap")
    with cloud() as aws, github_rest(REPOSITORY) as hub:
        options = options_for(aws, spot="prefer", runner_folder=RUNNER_FOLDER).model_dump(mode="json")
        told = {"MLDB_ENGINE": "ec2", "MLDB_RUNNER_TOKEN": TOKEN, "GITHUB_API_URL": hub.api}
        machine = {**MACHINE, "usd_per_hour": shipped_prices().usd_per_hour["g5.xlarge"]}
        yield World(aws, hub, Repository(tmp_path, machine, {"max_hours": 2, "ec2": options}, told))


def paid_usd(instances: dict[str, Instance]) -> float:
    prices = shipped_prices().usd_per_hour
    return sum(it.paid_usd(prices[it.kind]) for it in instances.values())


def most_usd(instances: dict[str, Instance]) -> float:
    """If nothing but the timers that are armed first had ended them."""
    prices = shipped_prices().usd_per_hour
    return sum(it.armed_hours * prices[it.kind] for it in instances.values())


def interrupt(world: World, instance: Instance, how: str) -> None:
    """Once it has stored a record and has more to do: with the two minutes' notice, or without."""
    while not instance.stored:
        assert not instance.is_over(), instance.said
        time.sleep(0.05)
    if how == "noticed":
        instance.notify()
        return
    instance.lose()
    (job,) = (it for it in world.hub.runners.service.jobs if [it.label] == [instance.tags["Name"]])
    world.hub.runners.service.lose(job)


@pytest.mark.parametrize("how", ["noticed", "lost"])
def test_a_night_loses_a_machine_and_the_next_one_completes_it(world: World, how: str) -> None:
    first = world.night(99)
    assert len(first.document.shards) == 2
    machines = world.booted(first)
    assert sorted(machines) == [shard.id for shard in first.document.shards]
    assert all(it.is_spot for it in machines.values())
    interrupt(world, machines["box-001"], how)
    until_over(list(machines.values()))
    first.upload(world.hub.runners.service.artifacts)
    done = first.collect(1)
    assert "start this workflow anew with missing-from 99" in done.stdout
    earlier = list(ResultsBranch(world.repository.results).records())
    outcomes = [record.outcome for record in earlier]
    graded = {record.cell for record in earlier if record.outcome == "graded"}
    assert set(outcomes) == ({"graded", "interrupted"} if how == "noticed" else {"graded"})
    assert CELLS / 2 <= len(graded) < CELLS
    assert first.outputs["lost"] == str(CELLS - len(graded)) and first.outputs["refused"] == "0"
    first.release()
    assert world.left() == []

    second = world.night(100, missing_from=first)
    cells = {cell.cell for run in second.document.runs for cell in run.cells}
    assert cells == {cell.cell for run in first.document.runs for cell in run.cells} - graded
    again = world.booted(second)
    until_over(list(again.values()))
    second.upload(world.hub.runners.service.artifacts)
    second.collect()
    assert {name: second.outputs[name] for name in ("lost", "refused")} == {"lost": "0", "refused": "0"}
    # The night is over: its machines have ended themselves, and there is nothing left to end.
    assert "ended" not in second.release().stdout
    world.hub.actions.runs[99]["status"] = world.hub.actions.runs[100]["status"] = "completed"
    assert second.sweep().stdout.strip().endswith("ec2: 0 left behind, 0 in order")
    assert world.left() == [] and not world.cloud.instances(REPOSITORY)

    records = [it for it in ResultsBranch(world.repository.results).records() if it.outcome == "graded"]
    assert len(records) == CELLS == len({record.cell for record in records}) and all(it.success for it in records)
    assert {record.provenance.sandbox for record in records} == {"bubblewrap"}
    second.check_site()
    for night, made in ((first, machines), (second, again)):
        assert paid_usd(made) <= most_usd(made) <= night.quoted_usd + _ROUNDED <= BUDGET_USD
    told = "".join(it.said for it in [*machines.values(), *again.values()])
    assert SECRET not in told and TOKEN not in told
