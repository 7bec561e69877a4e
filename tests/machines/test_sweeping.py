"""The two-strike rule, for any engine: what two looks show is ended, and what a look did not show is left alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from bench.base.errors import UserError
from bench.machines import (
    Demand,
    Engine,
    EngineName,
    Found,
    Lease,
    Machine,
    Quote,
    Registration,
    Released,
    Scope,
    SweepReport,
    lease_of,
    narrow_label,
    new_runner_name,
    parse_runner_name,
    sweep,
)

NOW = datetime(2026, 11, 23, 4, 0, tzinfo=UTC)
OURS = "owner/agents"


@dataclass(frozen=True)
class Record:
    id: int
    name: str
    busy: bool = False


@dataclass
class Registry:
    """GitHub's side: what each look shows, the last of them from then on."""

    looks: list[list[Record] | None]
    ended: dict[str, bool | None] = field(default_factory=dict)
    removed: list[int] = field(default_factory=list)

    def register(self, name: Callable[[], str], label: str) -> Registration:
        raise AssertionError("a sweep registers nothing")

    def records(self) -> Sequence[Record]:
        shown = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if shown is None:
            raise UserError("GitHub did not answer")
        return shown

    def remove(self, record: int) -> None:
        self.removed.append(record)

    def has_ended(self, run: str, attempt: int) -> bool:
        said = self.ended.get(run, False)
        if said is None:
            raise UserError(f"GitHub does not know run {run}")
        return said


class Listed(Engine):
    """A cloud whose looks are told beforehand."""

    name: ClassVar[EngineName] = "ec2"

    def __init__(self, *looks: Sequence[Machine] | None) -> None:
        self.looks = list(looks)
        self.released: list[str] = []

    def quote(self, demands: Sequence[Demand]) -> list[Quote]:
        return []

    def launch(self, lease: Lease, demand: Demand, runner: Registration | None) -> Machine:
        raise AssertionError("a sweep launches nothing")

    def find(self, scope: Scope) -> Found:
        shown = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return Found((), ["the cloud did not answer"]) if shown is None else Found(shown)

    def release(self, machines: Sequence[Machine]) -> Released:
        self.released += [machine.id for machine in machines]
        return Released(machines)


def lease(shard: str = "box-001", *, run: str = "7", hours: float = 2, repository: str = OURS) -> Lease:
    return Lease("ec2", repository, run, 1, shard, NOW + timedelta(hours=hours))


def machine(held: Lease, **changes: object) -> Machine:
    made = Machine("us-east-1/i-1", held, "running", started=NOW - timedelta(hours=1))
    return replace(made, **changes)  # type: ignore[arg-type]


def record(held: Lease, number: int = 1, *, minutes_old: float = 60, busy: bool = False) -> Record:
    return Record(number, new_runner_name(held, NOW - timedelta(minutes=minutes_old)), busy)


def swept(engine: Listed, registry: Registry | None) -> tuple[SweepReport, list[float]]:
    waits: list[float] = []
    return sweep(engine, OURS, registry, clock=lambda: NOW, wait=waits.append), waits


HELD = lease()


def test_what_is_in_order_is_left_alone_after_one_look() -> None:
    engine, registry = Listed([machine(HELD)]), Registry([[record(HELD, busy=True)]])
    report, waits = swept(engine, registry)
    assert (report.ended, report.faults, report.kept, waits) == ([], [], 2, [])


def test_a_machine_without_a_runner_is_ended_after_two_looks() -> None:
    engine = Listed([machine(HELD)])
    report, waits = swept(engine, Registry([[]]))
    assert engine.released == ["us-east-1/i-1"] and waits == [120.0]
    assert [it.why for it in report.ended] == ["GitHub has no runner for it"]


def test_a_list_that_lags_ends_nothing() -> None:
    engine = Listed([machine(HELD)])
    report, _ = swept(engine, Registry([[], [record(HELD)]]))
    assert not engine.released and not report.ended


def test_a_machine_that_boots_may_be_without_a_runner() -> None:
    engine = Listed([machine(HELD, started=NOW - timedelta(minutes=5))])
    assert not swept(engine, Registry([[]]))[0].ended and not engine.released


@pytest.mark.parametrize("looks", [[None], [[], None], [None, []]])
def test_a_list_of_runners_that_failed_is_not_an_absence(looks: list[list[Record] | None]) -> None:
    engine = Listed([machine(HELD)])
    report, _ = swept(engine, Registry(looks))
    assert not engine.released and report.faults == ["GitHub did not answer"]


def test_a_run_that_is_over_ends_its_machine_and_its_idle_runner() -> None:
    engine, registry = Listed([machine(HELD)]), Registry([[record(HELD)]], {"7": True})
    report, _ = swept(engine, registry)
    assert engine.released == ["us-east-1/i-1"] and registry.removed == [1]
    assert [it.why for it in report.ended] == ["attempt 1 of run 7 is over", "its machine was ended"]


def test_a_run_that_github_does_not_tell_of_is_not_over() -> None:
    engine = Listed([machine(HELD)])
    report, _ = swept(engine, Registry([[record(HELD, busy=True)]], {"7": None}))
    assert not engine.released and report.faults == ["GitHub does not know run 7"]


def test_an_expired_lease_needs_no_other_evidence() -> None:
    engine = Listed([machine(lease(hours=-0.1))])
    report, waits = swept(engine, Registry([None]))
    assert engine.released == ["us-east-1/i-1"] and waits == []
    assert [it.why for it in report.ended] == ["its lease has expired"]


def test_a_runner_without_a_machine_is_removed_after_two_looks() -> None:
    engine, registry = Listed([]), Registry([[record(HELD)]])
    report, waits = swept(engine, registry)
    assert registry.removed == [1] and waits == [120.0]
    assert [it.why for it in report.ended] == ["its machine does not exist"]


@pytest.mark.parametrize("looks", [[None], [[], None], [None, []], [[], [machine(HELD)]], [[machine(HELD)], []]])
def test_a_machine_that_could_not_be_looked_for_is_not_absent(looks: list[Sequence[Machine] | None]) -> None:
    registry = Registry([[record(HELD)]])
    swept(Listed(*looks), registry)
    assert not registry.removed


@pytest.mark.parametrize(
    "kept",
    [
        record(HELD, busy=True),
        record(HELD, minutes_old=5),
        record(lease(repository="owner/others")),
        Record(1, "a runner of others"),
        Record(1, record(HELD).name.replace("-ec2-", "-sky-")),
    ],
    ids=["works", "boots", "of another repository", "of others", "of another engine"],
)
def test_a_runner_that_is_not_ours_or_not_idle_is_left_alone(kept: Record) -> None:
    registry = Registry([[kept]])
    report, _ = swept(Listed([]), registry)
    assert not registry.removed and not report.ended


def test_a_machine_of_another_repository_is_never_touched() -> None:
    """Also where an engine shows it."""
    engine = Listed([machine(lease(repository="owner/others", hours=-5))])
    assert not swept(engine, Registry([[]]))[0].ended and not engine.released


@pytest.mark.parametrize("kind", ["volume", "request"])
def test_what_lies_beside_a_machine_goes_when_the_machine_has(kind: str) -> None:
    beside = machine(HELD, id="us-east-1/beside", kind=kind)
    held = Listed([beside, machine(HELD)])
    swept(held, Registry([[record(HELD, busy=True)]]))
    alone = Listed([beside])
    swept(alone, Registry([[]]))
    assert (held.released, alone.released) == ([], ["us-east-1/beside"])


def test_jobs_that_are_no_runners_are_swept_by_lease_and_run() -> None:
    engine = Listed([machine(lease(run="1"), id="job-1", kind="job"), machine(lease(run="2"), id="job-2", kind="job")])
    engine.registers = False  # type: ignore[misc]
    swept(engine, Registry([None], {"1": True}))
    assert engine.released == ["job-1"]


def test_tags_and_names_say_whose_they_are() -> None:
    held = lease("box-001", run="12345678901")
    assert lease_of(held.tags()) == held and lease_of({**held.tags(), "other": "x"}) == held
    for changed in ({"mldb-run": "8"}, {"mldb-expires": "soon"}, {"mldb-engine": "sky"}, {"mldb-lease": ""}):
        assert lease_of({**held.tags(), **changed}) is None
    name = new_runner_name(replace(held, engine="batch", attempt=999), NOW)
    assert len(name) <= 64 and name != new_runner_name(held, NOW)
    parsed = parse_runner_name(new_runner_name(held, NOW))
    assert parsed is not None and (parsed.lease, parsed.made, parsed.attempt) == (held.id, NOW, 1)
    assert parsed.is_of(Scope("Owner/Agents", "12345678901")) and not parsed.is_of(Scope(OURS, "7"))
    assert Scope(OURS, "12345678901", 1).holds(held) and not Scope(OURS, "12345678901", 2).holds(held)
    assert narrow_label("box-1") == "box-1" and narrow_label(OURS) != narrow_label("owner-agents")
    assert len(narrow_label("x" * 200)) == 63
