"""Machines of every cloud that SkyPilot knows, and of Kubernetes, each the runner of one shard.

Never run against a cloud: the tests speak to a stand-in of SkyPilot's API server over HTTP, which checks every request
by what the real server publishes, and once a night to a real server without a cloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from bench.base.errors import UserError
from bench.machines.boot import check_runner_age
from bench.machines.engine import Engine
from bench.machines.facts import (
    Clock,
    Demand,
    Found,
    Machine,
    OutOfCapacity,
    Quote,
    Registration,
    Released,
    State,
    utc_now,
)
from bench.machines.lease import EngineName, Lease, Scope
from bench.machines.settings import SkyMachine, SkyOptions
from bench.machines.sky.answers import Cluster, KeptRequest
from bench.machines.sky.server import SkyError, SkyServer
from bench.machines.sky.task import AFTER_MINUTES, cluster_of, labels_in, lease_in, question, task_for

_STATES: Mapping[str, State] = {"INIT": "pending", "UP": "running", "AUTOSTOPPING": "ending"}
"""A stopped cluster can start again, and its disk costs money: that and what is not known count as running."""
_NONE_FREE = "ResourcesUnavailableError"
_LAUNCH_S = 1500
_DOWN_S = 900
_AROUND_HOURS = 0.75
"""From the request to the runner, and from its end to the deletion."""
_LONGEST_LABEL = 63


class SkyEngine(Engine):
    """One cluster for each machine."""

    name: ClassVar[EngineName] = "sky"
    wait_hours = _AROUND_HOURS

    def __init__(
        self, options: SkyOptions, server: SkyServer, strangers: Sequence[str] = (), *, clock: Clock = utc_now
    ) -> None:
        """strangers: agents of the plan that do not ship with the benchmark."""
        self._options = options
        self._server = server
        self._strangers = strangers
        self._clock = clock
        self._asked: dict[str, str] = {}
        """The request for the cluster of each lease."""

    def quote(self, demands: Sequence[Demand]) -> list[Quote]:
        if self._strangers and self._options.identity != "itself":
            raise UserError(
                f"the credentials on a machine may do more than end it, and {self._strangers[0]} is not an agent of "
                "the benchmark",
                where="sky",
                remedy="give machines an identity that can end nothing but itself, and then say `identity: itself` "
                "(docs/machines-sky.md)",
            )
        check_runner_age(self._options.runner_released, self._clock().date(), "sky")
        self._server.require_version()
        asked = {demand.machine: demand for demand in sorted(demands, key=lambda it: (it.gpus, it.cpus))}
        for demand in asked.values():
            self._require_offer(demand)
        return [self._quote(demand) for demand in demands]

    def _require_offer(self, demand: Demand) -> None:
        machine = self._machine(demand)
        try:
            self._server.optimize(question(demand, self._options, machine))
        except SkyError as error:
            if error.kind != _NONE_FREE:
                raise
            raise OutOfCapacity(
                f"SkyPilot has no such machine at {machine.usd_per_hour:g} USD an hour: {error}",
                where=f"class {demand.machine}",
                remedy="raise `usd_per_hour`, or name more places under `infra`",
            ) from None

    def _machine(self, demand: Demand) -> SkyMachine:
        machine = self._options.machines.get(demand.machine)
        if machine is None:
            raise UserError(
                f"machine class {demand.machine!r} of the plan is not in `sky.machines`",
                where="machines file",
                remedy=f"add it with its `infra` (there are {', '.join(sorted(self._options.machines))})",
            )
        if machine.gpus < demand.gpus:
            raise UserError(
                f"class {demand.machine!r} promises {demand.gpus} GPUs, and its `accelerators` are {machine.gpus}",
                where="machines file",
                remedy="name them, such as `accelerators: L4:1`",
            )
        if len(demand.shard) > _LONGEST_LABEL:
            remedy = "shorten the name of the machine class in the experiment file"
            raise UserError(f"is longer than {_LONGEST_LABEL}", where=f"shard {demand.shard}", remedy=remedy)
        return machine

    def _quote(self, demand: Demand) -> Quote:
        machine = self._machine(demand)
        kind = f"{machine.accelerators or demand.machine} in {' or '.join(machine.infra)}"
        source = "`usd_per_hour`, above which SkyPilot makes nothing"
        return Quote(demand.shard, kind, machine.usd_per_hour, demand.hours + _AROUND_HOURS, source)

    def launch(self, lease: Lease, demand: Demand, runner: Registration | None) -> Machine:
        if runner is None:
            raise UserError("a machine of this engine is a runner, which takes a configuration", where="sky")
        name = cluster_of(lease)
        for cluster in self._server.clusters([name]):
            if not _is_of(cluster.labels, lease):
                raise UserError(f"a cluster {name} of others exists", where=f"shard {lease.shard}")
            return self._seen(cluster, lease)
        machine = self._machine(demand)
        task = task_for(lease, demand, self._options, machine, runner.configuration, self._clock())
        self._asked[lease.id] = self._server.launch(task, name)
        return Machine(name, lease, "pending", "machine", "SkyPilot", machine.usd_per_hour)

    def settle(self, machines: Sequence[Machine]) -> None:
        asked = {it.cluster_name: it.request_id for it, _ in self._server.launches()}
        for machine in machines:
            request = self._asked.get(machine.lease.id) or asked.get(cluster_of(machine.lease))
            if request is not None:
                self._finish(request, machine.lease)
        names = [cluster_of(machine.lease) for machine in machines]
        found = {cluster.name: cluster for cluster in self._server.clusters(names)} if names else {}
        for machine in machines:
            cluster = found.get(cluster_of(machine.lease))
            if cluster is None or not cluster.to_down or not 0 <= cluster.autostop <= AFTER_MINUTES:
                fault = "does not exist" if cluster is None else "would not be deleted after its job"
                raise UserError(f"its cluster {fault}", where=f"shard {machine.lease.shard}", remedy="provision anew")

    def _finish(self, request: str, lease: Lease) -> None:
        try:
            self._server.finish(request, _LAUNCH_S)
        except SkyError as error:
            kind = OutOfCapacity if error.kind == _NONE_FREE else UserError
            raise kind(str(error), where=f"shard {lease.shard}", remedy="name more places, or start later") from None

    def find(self, scope: Scope) -> Found:
        try:
            # Launches before clusters: one that becomes a cluster between the two looks is seen twice, not never.
            machines = [it for it in (self._launching(one, scope) for one in self._server.launches()) if it]
            own = [(it, lease) for it in self._server.clusters() if (lease := lease_in(it.labels, scope))]
        except UserError as error:
            return Found(faults=[str(error)])
        faults: list[str] = []
        if own:
            try:
                # The server remembers clusters that have deleted themselves; only ours are asked for in their clouds.
                alive = {it.name: it for it in self._server.clusters([it.name for it, _ in own], refresh=True)}
                own = [(alive[it.name], lease) for it, lease in own if it.name in alive]
            except UserError as error:
                faults.append(str(error))
        made = {lease.id for _, lease in own}
        machines = [it for it in machines if it.lease.id not in made]
        return Found([*machines, *(self._seen(cluster, lease) for cluster, lease in own)], faults)

    def _launching(self, launch: tuple[KeptRequest, str], scope: Scope) -> Machine | None:
        request, task = launch
        lease = lease_in(labels_in(task), scope)
        if lease is None or request.cluster_name != cluster_of(lease):
            return None
        return Machine(cluster_of(lease), lease, "pending", "job", "SkyPilot")

    def release(self, machines: Sequence[Machine]) -> Released:
        try:
            present = self._stop_launches(machines)
        except UserError as error:
            return Released(faults=[f"cluster {machine.id}: {error}" for machine in machines])
        faults: dict[str, str] = {}
        for machine in machines:
            cluster = present.get(machine.id)
            if cluster is not None and not _is_of(cluster.labels, machine.lease):
                faults[machine.id] = "it belongs to others"
        down = [name for name in dict.fromkeys(it.id for it in machines) if name in present and name not in faults]
        faults |= self._server.down(down, _DOWN_S)
        ended = [machine for machine in machines if machine.id not in faults]
        return Released(ended, [f"cluster {name}: {fault}" for name, fault in faults.items()])

    def _stop_launches(self, machines: Sequence[Machine]) -> dict[str, Cluster]:
        """End what would still make these clusters; those that exist after that."""
        names = {machine.id: machine.lease for machine in machines}
        if not names:
            return {}
        own = [
            request.request_id
            for request, task in self._server.launches()
            if (lease := names.get(request.cluster_name or "")) and _is_of(labels_in(task), lease)
        ]
        if own:
            self._server.cancel(own)
        return {cluster.name: cluster for cluster in self._server.clusters(list(names))}

    def _seen(self, cluster: Cluster, lease: Lease) -> Machine:
        state = _STATES.get(cluster.status, "running")
        if state == "ending" and self._clock() > lease.expires:
            state = "running"  # it hangs in its deletion
        known = state == "running" and cluster.launched_at
        started = datetime.fromtimestamp(cluster.launched_at, UTC) if known and cluster.launched_at else None
        return Machine(cluster.name, lease, state, "machine", "SkyPilot", started=started)


def _is_of(labels: Mapping[str, str], lease: Lease) -> bool:
    """Whether these are labels of this lease, of an earlier launch too, which may have expired at another hour."""
    found = lease_in(labels, Scope(lease.repository, lease.run, lease.attempt))
    return found is not None and found.id == lease.id
