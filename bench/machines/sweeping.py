"""What earlier runs left behind, in both directions: machines without a job, GitHub's runner records without a machine.

Lists of clouds and of GitHub lag behind, so nothing is ended for what one look has shown: it takes two looks, some time
apart, that both succeeded. A look-up that failed says nothing, so whatever rests on it is left alone. The one exception
is a lease that has expired: that stands in the machine's own tags, and no look at anything else can change it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bench.base.errors import UserError
from bench.machines.facts import Clock, Cloud, Ending, Machine, Registry, RunnerRecord, SweepReport, utc_now
from bench.machines.lease import Scope, parse_runner_name

BOOT = timedelta(minutes=20)
"""For which a machine may be without a runner, and a runner without a machine: between the two lies a boot."""


@dataclass
class _Look:
    """One look at both sides."""

    moment: datetime
    machines: Sequence[Machine]
    machines_known: bool
    """Every place of the cloud has answered."""
    records: Sequence[RunnerRecord] | None
    """Of this engine and repository; None: GitHub did not say."""
    ended_runs: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Whether an attempt is over; one that GitHub did not tell of is missing."""


def sweep(
    engine: Cloud,
    repository: str,
    registry: Registry | None,
    *,
    pause_s: float = 120.0,
    boot: timedelta = BOOT,
    clock: Clock = utc_now,
    wait: Callable[[float], None] = time.sleep,
) -> SweepReport:
    """End what both of two looks show to be left behind; registry: None where the engine's machines are no runners."""
    report = SweepReport()
    first = _look(engine, repository, registry, report, clock())
    strikes = _strikes(engine, first, boot)
    if strikes:
        wait(pause_s)
        second = _look(engine, repository, registry, report, clock())
        again = _strikes(engine, second, boot)
        strikes = {key: why for key, why in strikes.items() if key in again}
    else:
        second = first
    # A place that answered once and failed once is one fault.
    report.faults = list(dict.fromkeys(report.faults))
    expired = {machine.id: "its lease has expired" for machine in _alive(second) if _is_expired(machine, second.moment)}
    ended = {key: why for (kind, key), why in strikes.items() if kind == "machine"} | expired
    _end_machines(engine, second, ended, report)
    orphans = {key: why for (kind, key), why in strikes.items() if kind == "record"} | _without(second, ended)
    if registry is not None:
        _remove_records(registry, second, orphans, report)
    report.kept = len(_alive(second)) + len(second.records or ()) - len(report.ended)
    return report


def _look(engine: Cloud, repository: str, registry: Registry | None, report: SweepReport, moment: datetime) -> _Look:
    # Records before machines: a machine whose record was made between the two looks would pass for one without.
    records = _own_records(engine, repository, registry, report)
    found = engine.find(Scope(repository))
    report.faults += found.faults
    own = [machine for machine in found.machines if Scope(repository).holds(machine.lease)]
    look = _Look(moment, own, not found.faults, records)
    if registry is not None:
        for run, attempt in {(machine.lease.run, machine.lease.attempt) for machine in _alive(look)}:
            try:
                look.ended_runs[run, attempt] = registry.has_ended(run, attempt)
            except UserError as error:
                report.faults.append(str(error))
    return look


def _own_records(
    engine: Cloud, repository: str, registry: Registry | None, report: SweepReport
) -> list[RunnerRecord] | None:
    if registry is None or not engine.registers:
        return None
    try:
        return [record for record in registry.records() if _is_own(record, engine, repository)]
    except UserError as error:
        report.faults.append(str(error))
        return None


def _is_own(record: RunnerRecord, engine: Cloud, repository: str) -> bool:
    name = parse_runner_name(record.name)
    return name is not None and name.engine == engine.name and name.is_of(Scope(repository))


def _alive(look: _Look) -> list[Machine]:
    return [machine for machine in look.machines if machine.is_alive]


def _held(look: _Look) -> set[str]:
    """The leases that have their machine, or a job that waits for one."""
    return {machine.lease.id for machine in _alive(look) if machine.kind in ("machine", "job")}


def _is_expired(machine: Machine, moment: datetime) -> bool:
    return moment > machine.lease.expires


def _strikes(engine: Cloud, look: _Look, boot: timedelta) -> dict[tuple[str, str], str]:
    """What this look counts against machines and records, by ("machine", id) and ("record", id)."""
    machines = {("machine", machine.id): why for machine in _alive(look) if (why := _against(machine, look, boot))}
    return machines | dict(_orphans(look, boot))


def _against(machine: Machine, look: _Look, boot: timedelta) -> str:
    """Why the machine seems to be left behind; empty where it does not."""
    lease = machine.lease
    if look.ended_runs.get((lease.run, lease.attempt)):
        return f"attempt {lease.attempt} of run {lease.run} is over"
    if machine.kind not in ("machine", "job"):
        # A disk or a request is made together with its machine, which another list may show later.
        return "" if lease.id in _held(look) or not look.machines_known else f"a {machine.kind} without a machine"
    if look.records is None or machine.started is None or look.moment - machine.started < boot:
        return ""
    known = {name.lease for record in look.records if (name := parse_runner_name(record.name))}
    return "" if lease.id in known else "GitHub has no runner for it"


def _orphans(look: _Look, boot: timedelta) -> Iterator[tuple[tuple[str, str], str]]:
    """Records of runners whose machine does not exist, or never did."""
    if look.records is None or not look.machines_known:
        return
    held = _held(look)
    for record in look.records:
        name = parse_runner_name(record.name)
        if name is None or name.lease in held or record.busy or look.moment - name.made < boot:
            continue
        yield ("record", str(record.id)), "its machine does not exist"


def _without(look: _Look, ended: dict[str, str]) -> dict[str, str]:
    """Records of the machines that are ended now, and work on nothing."""
    leases = {machine.lease.id for machine in _alive(look) if machine.id in ended}
    idle = [record for record in look.records or () if not record.busy]
    names = {str(record.id): parse_runner_name(record.name) for record in idle}
    return {key: "its machine was ended" for key, name in names.items() if name is not None and name.lease in leases}


def _end_machines(engine: Cloud, look: _Look, ended: dict[str, str], report: SweepReport) -> None:
    released = engine.release([machine for machine in _alive(look) if machine.id in ended])
    report.faults += released.faults
    report.ended += [
        Ending(
            f"{machine.kind} {machine.id} of shard {machine.lease.shard}, run {machine.lease.run}", ended[machine.id]
        )
        for machine in released.machines
    ]


def _remove_records(registry: Registry, look: _Look, orphans: dict[str, str], report: SweepReport) -> None:
    for record in look.records or ():
        if str(record.id) not in orphans:
            continue
        try:
            registry.remove(record.id)
        except UserError as error:
            report.faults.append(str(error))
        else:
            report.ended.append(Ending(f"runner record {record.name}", orphans[str(record.id)]))
