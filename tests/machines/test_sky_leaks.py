"""No cluster is left behind: provision is killed or cancelled at every place, and the server goes on without it.

In the stand-in a cluster does not delete itself, so what is proven here holds without its own agent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import pytest

from bench.github import open_runners
from bench.machines import Lease, Run, Scope, SkyEngine, SweepReport, new_runner_name, provision_all, release_all, sweep
from bench.machines.sky.server import server_of
from bench.machines.sky.task import cluster_of, labels_of, question
from tests.helpers.github_rest import TOKEN, Service, github_rest
from tests.helpers.machines import BUDGET, DEMANDS, REPOSITORY, How, Provisioner, later, sky_options, sky_provisioner
from tests.helpers.sampling import at_night
from tests.helpers.skypilot import Pilot, Stage, skypilot

OTHERS = "owner/others"


def engine_for(pilot: Pilot, **changes: object) -> SkyEngine:
    return SkyEngine(sky_options(**changes), server_of(dict(pilot.environment)))


@dataclass
class World:
    """Both stand-ins, with what belongs to others."""

    pilot: Pilot
    hub: Service
    provisioner: Provisioner
    runs: Iterator[int] = field(default_factory=lambda: itertools.count(1000))
    others: set[str] = field(default_factory=set)

    def add_others(self) -> None:
        """Clusters of another repository, without labels, with a part of ours, with a name of ours; and runners."""
        lease = Lease("sky", OTHERS, "1", 1, "box-001", later(hours=-9)())
        partly = {"mldb-repository": labels_of(Lease("sky", REPOSITORY, "1", 1, "b", lease.expires))["mldb-repository"]}
        self.pilot.add(cluster_of(lease), labels_of(lease))
        self.pilot.add("somebody", {})
        self.pilot.add("partly", partly)
        self.pilot.add("mldb-0123456789abcdef", {})
        self.others = set(self.pilot.clusters)
        self.hub.runners.add("a runner of others")
        self.hub.runners.add(new_runner_name(lease, later(hours=-9)()))

    def new_run(self, *, ended: bool) -> str:
        number = next(self.runs)
        self.hub.actions.make_run(number, "a" * 40)["status"] = "completed" if ended else "in_progress"
        return str(number)

    def left(self) -> list[str]:
        """What is left of ours once the server has done all that it was asked; what belongs to others must be there."""
        self.pilot.settle()
        assert self.others <= set(self.pilot.clusters), "a cluster of others was deleted"
        names = [it["name"] for it in self.hub.runners.records.values()]
        assert len(names) >= 2, "a runner of others was removed"
        return sorted({*self.pilot.clusters} - self.others) + [f"record {name}" for name in names[2:]]

    def release(self, run: str) -> None:
        with open_runners(REPOSITORY, TOKEN, api=self.hub.api, pause_s=0) as runners:
            report = release_all(engine_for(self.pilot), Scope(REPOSITORY, run), runners)
        assert not report.faults

    def sweep(self, *, minutes: float = 30) -> SweepReport:
        with open_runners(REPOSITORY, TOKEN, api=self.hub.api, pause_s=0) as runners:
            clock = later(minutes=minutes)
            return sweep(engine_for(self.pilot), REPOSITORY, runners, clock=clock, wait=lambda _: None)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with skypilot() as pilot, github_rest(REPOSITORY) as hub, sky_provisioner(pilot, hub) as asked:
        hub.left = 1_000_000
        made = World(pilot, hub, asked)
        made.add_others()
        yield made


def test_a_whole_run_leaves_nothing_after_its_release(world: World) -> None:
    run = world.new_run(ended=False)
    counts = world.provisioner.ask(run)
    assert counts["line"] > 150 and counts["rest"] > 30
    assert len([it for it in world.left() if not it.startswith("record")]) == len(DEMANDS)
    assert not world.sweep(minutes=10).ended, "clusters that boot are in order"
    world.release(run)
    assert world.left() == []
    world.release(run)


def places(kind: str, world: World, step: int) -> list[int]:
    found = range(1, world.provisioner.ask(world.new_run(ended=True))[kind] + 1)
    world.sweep()
    assert world.left() == [] and found
    return list(found[::step])


def check(world: World, kind: str, at: int, how: How) -> None:
    """By the release of the same run alone, and by the sweep of a later one alone."""
    run = world.new_run(ended=False)
    passed = world.provisioner.ask(run, kind, at, how)
    assert bool(passed) == (how == "cancelled")
    world.release(run)
    assert world.left() == [], f"{kind} {at}: after release"
    if how == "killed":
        world.provisioner.ask(world.new_run(ended=True), kind, at, how)
        report = world.sweep()
        assert world.left() == [], f"{kind} {at}: after sweep"
        assert not report.faults


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", at_night("cancelled")])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_ended_at_a_request_nothing_stays(world: World, step: int, how: How) -> None:
    """Before each request to either server, and after each answer."""
    for at in places("rest", world, step):
        check(world, "rest", at, how)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "cancelled"])
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.nightly)])
def test_ended_at_a_statement_nothing_stays(world: World, how: How, step: int) -> None:
    for at in places("line", world, step):
        check(world, "line", at, how)


@pytest.mark.parametrize("stage", get_args(Stage))
@pytest.mark.parametrize("by", ["release", "sweep"])
def test_a_launch_that_goes_on_without_its_client_is_ended(world: World, stage: Stage, by: str) -> None:
    """Before there is a cluster, and where it is there without the order to delete itself."""
    run = world.new_run(ended=by == "sweep")
    world.pilot.hold = stage
    engine = engine_for(world.pilot)
    with open_runners(REPOSITORY, TOKEN, api=world.hub.api, pause_s=0) as runners:
        for demand in DEMANDS:
            lease = Run("sky", REPOSITORY, run, 1).lease(demand)
            made = runners.register(lambda lease=lease: new_runner_name(lease, later()()), lease.label)  # type: ignore[misc]
            engine.launch(lease, demand, made)
    # A launch of somebody else waits, too, under a name of their own.
    engine._server.launch(question(DEMANDS[0], sky_options(), sky_options().machines["box"]), "theirs")
    world.pilot.settle()
    if stage == "making":
        unarmed = [it for it in world.pilot.clusters.values() if it["autostop"] == -1]
        assert len(unarmed) == 1 + len(DEMANDS)
    world.release(run) if by == "release" else world.sweep()
    cancelled = [it.body["cluster_name"] for it in world.pilot.requests.values() if it.status == "CANCELLED"]
    assert "theirs" not in cancelled
    world.pilot.resume()
    assert [it for it in world.left() if it != "theirs"] == []
    assert "theirs" in world.pilot.clusters
    del world.pilot.clusters["theirs"]


def test_cancelled_while_it_waits_for_clusters_it_releases_them(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.pilot.hold = "making"
    engine = engine_for(world.pilot)

    def cancelled(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine._server, "finish", cancelled)
    run = Run("sky", REPOSITORY, world.new_run(ended=False), 1)
    leases = tmp_path / "leases"
    with (
        open_runners(REPOSITORY, TOKEN, api=world.hub.api, pause_s=0) as runners,
        pytest.raises(KeyboardInterrupt),
    ):
        provision_all(engine, run, DEMANDS, budget_usd=BUDGET, registry=runners, leases=leases)
    world.pilot.resume()
    assert world.left() == []
    assert len(leases.read_text().splitlines()) == len(DEMANDS), "each lease was there first"
