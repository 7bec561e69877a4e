"""Nothing is left behind: provision is killed or cancelled at every place, and then release or sweep finds all of it.

In the clouds of the tests a machine does not end itself, so what is proven here holds without its own timers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import boto3
import pytest

from bench.github import open_runners
from bench.machines import Ec2Engine, Scope, SweepReport, new_runner_name, release_all, sweep
from bench.machines.lease import Lease
from tests.helpers.aws import Cloud, cloud
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.machines import DEMANDS, REPOSITORY, How, Provisioner, later, options_for, provisioner
from tests.helpers.sampling import at_night

OTHERS = "owner/others"
PARTS = 6


@dataclass
class World:
    """Both stand-ins, with what belongs to others."""

    cloud: Cloud
    hub: Service
    provisioner: Provisioner
    runs: Iterator[int] = field(default_factory=lambda: itertools.count(1000))
    others: list[str] = field(default_factory=list)

    def add_others(self) -> None:
        """A machine of another repository, one without tags, one with a part of ours, and runners of others."""
        ec2 = boto3.client("ec2", region_name="us-east-1")
        lease = Lease("ec2", OTHERS, "1", 1, "box-001", later(hours=-9)())
        whole = lease.tags()
        for tags in (whole, {}, {"mldb-repository": REPOSITORY, "mldb-engine": "ec2"}):
            pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
            wanted = {"TagSpecifications": [{"ResourceType": "instance", "Tags": pairs}]} if pairs else {}
            made = ec2.run_instances(ImageId=self.cloud.image("us-east-1"), MinCount=1, MaxCount=1, **wanted)
            self.others.append(made["Instances"][0]["InstanceId"])
        self.hub.runners.add("a runner of others")
        self.hub.runners.add(new_runner_name(lease, later(hours=-9)()))

    def new_run(self, *, ended: bool) -> str:
        number = next(self.runs)
        self.hub.actions.make_run(number, "a" * 40)["status"] = "completed" if ended else "in_progress"
        return str(number)

    def left(self) -> list[str]:
        """What is left of ours; what belongs to others must be there."""
        alive = {it.id for it in self.cloud.instances()}
        assert set(self.others) <= alive, "a machine of others was ended"
        names = [it["name"] for it in self.hub.runners.records.values()]
        assert len(names) >= 2, "a runner of others was removed"
        known = set(self.others)
        things = [it for it in self.cloud.left_over(REPOSITORY) if it.split()[1] not in known]
        return things + [f"record {name}" for name in names[2:]]

    def release(self, run: str) -> None:
        with open_runners(REPOSITORY, TOKEN, api=self.hub.api, pause_s=0) as runners:
            report = release_all(Ec2Engine(options_for(self.cloud)), Scope(REPOSITORY, run), runners)
        assert not report.faults

    def sweep(self, *, minutes: float = 30) -> SweepReport:
        with open_runners(REPOSITORY, TOKEN, api=self.hub.api, pause_s=0) as runners:
            engine = Ec2Engine(options_for(self.cloud))
            return sweep(engine, REPOSITORY, runners, clock=later(minutes=minutes), wait=lambda _: None)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with cloud() as aws, github_rest(REPOSITORY) as hub, provisioner(aws, hub, spot="prefer") as asked:
        hub.left = 1_000_000
        # The first market has none of the first type, so that falling back is on the way, too.
        aws.full.add(("spot", "g5.xlarge"))
        made = World(aws, hub, asked)
        made.add_others()
        yield made


def test_a_whole_run_leaves_nothing_after_its_release(world: World) -> None:
    run = world.new_run(ended=False)
    counts = world.provisioner.ask(run)
    assert counts["line"] > 150 and counts["aws"] > 10 and counts["rest"] == 2 * len(DEMANDS)
    assert len(world.cloud.instances(REPOSITORY)) == 1 + len(DEMANDS), "and one with a part of our tags"
    assert len([it for it in world.left() if it.startswith("request")]) == len(DEMANDS), "these were spot machines"
    assert not world.sweep(minutes=10).ended, "machines that boot are in order"
    world.release(run)
    assert world.left() == []
    world.release(run)


# Every statement takes minutes, so the night has them in parts that can run side by side.
STATEMENTS = [pytest.param(PARTS, start, marks=pytest.mark.nightly) for start in range(PARTS)]


def every(kind: str, world: World) -> range:
    return range(1, world.provisioner.ask(world.new_run(ended=True))[kind] + 1)


def places(kind: str, world: World, step: int, start: int = 0) -> list[int]:
    found = every(kind, world)
    world.sweep()
    assert world.left() == [] and len(found) > start
    return list(found[start::step])


def check(world: World, kind: str, at: int, how: How) -> None:
    """By the release of the same run alone, and by the sweep of a later one alone."""
    run = world.new_run(ended=False)
    passed = world.provisioner.ask(run, kind, at, how)
    assert bool(passed) == (how == "cancelled")
    if how == "cancelled":
        whole = len([it for it in world.left() if it.startswith("instance")]) == len(DEMANDS)
        assert whole or world.left() == [], f"{kind} {at}: it releases what it has made"
        # Cancelled after the last machine was made, the step is done: that is for the job that releases.
        world.release(run)
        assert world.left() == [], f"{kind} {at}: after release"
        return
    world.release(run)
    assert world.left() == [], f"{kind} {at}: after release"
    world.provisioner.ask(world.new_run(ended=True), kind, at, how)
    report = world.sweep()
    assert world.left() == [], f"{kind} {at}: after sweep"
    assert not report.faults


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", at_night("cancelled")])
@pytest.mark.parametrize(("kind", "step"), [("rest", 1), ("aws", 5), pytest.param("aws", 1, marks=pytest.mark.nightly)])
def test_ended_at_a_request_nothing_stays(world: World, kind: str, step: int, how: How) -> None:
    """Before each request, and after each answer."""
    for at in places(kind, world, step):
        check(world, kind, at, how)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "cancelled"])
@pytest.mark.parametrize(("step", "start"), [(83, 0), *STATEMENTS])
def test_ended_at_a_statement_nothing_stays(world: World, how: How, step: int, start: int) -> None:
    for at in places("line", world, step, start):
        check(world, "line", at, how)
