"""Machines of EC2, each the runner of one shard.

Never run against AWS: the tests speak to moto over HTTP, with its gaps filled, and check every request against
botocore's description of the service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from bench.base.errors import UserError
from bench.machines.boot import check_runner_age
from bench.machines.ec2.cloud import client, code_of, end_all, in_region, said
from bench.machines.ec2.prices import machine_of, on_demand_price, quote_all, shipped_prices
from bench.machines.ec2.request import Try, run_instances, tries, user_data
from bench.machines.engine import Engine
from bench.machines.facts import Clock, Demand, Found, Machine, OutOfCapacity, Quote, Registration, Released, utc_now
from bench.machines.lease import EngineName, Lease, Scope
from bench.machines.settings import Ec2Options, Ec2Place

_NONE_FREE = {
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientReservedInstanceCapacity",
    "InstanceLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow",
    "UnfulfillableCapacity",
    # A zone that does not have the type at all.
    "Unsupported",
    "VcpuLimitExceeded",
}
"""EC2 has made nothing, and another place or market may have what is asked for."""


class Ec2Engine(Engine):
    """One RunInstances for each machine."""

    name: ClassVar[EngineName] = "ec2"

    def __init__(self, options: Ec2Options, *, clock: Clock = utc_now, connect: Callable[[str], Any] = client) -> None:
        self._options = options
        self._clock = clock
        self._connect = connect
        self._clients: dict[str, Any] = {}
        self._images: dict[str, Mapping[str, Any]] = {}
        self._prices = shipped_prices()
        self._limits: dict[str, float] = {}
        """What a machine of each class may cost an hour, as it was quoted."""

    def quote(self, demands: Sequence[Demand]) -> list[Quote]:
        from botocore.exceptions import BotoCoreError, ClientError

        check_runner_age(self._options.runner_released, self._clock().date(), "ec2")
        try:
            quotes = quote_all(self._options, demands, self._client, self._clock())
        except (BotoCoreError, ClientError) as error:
            raise UserError(said(error), where="EC2's spot prices", remedy=_remedy(error)) from None
        self._limits.update({demand.machine: quote.usd_per_hour for demand, quote in zip(demands, quotes, strict=True)})
        return quotes

    def launch(self, lease: Lease, demand: Demand, runner: Registration | None) -> Machine:
        if runner is None:
            raise UserError("a machine of EC2 is a runner, which takes a configuration", where=f"shard {lease.shard}")
        if demand.machine not in self._limits:
            self.quote([demand])
        refused: list[str] = []
        for asked in tries(self._options, machine_of(self._options, demand.machine)):
            machine, why = self._try(asked, lease, demand, runner)
            if machine is not None:
                return machine
            refused.append(f"{asked.name}: {why}")
        raise OutOfCapacity(
            f"EC2 has no machine: {'; '.join(refused)}",
            where=f"shard {lease.shard}",
            remedy="add places or types to the machines file, raise the account's quota, or start the run later",
        )

    def find(self, scope: Scope) -> Found:
        from botocore.exceptions import BotoCoreError, ClientError

        machines: list[Machine] = []
        faults: list[str] = []
        for region in self._options.regions:
            try:
                machines += in_region(self._client(region), region, scope, self._price_in(region))
            except (BotoCoreError, ClientError) as error:
                faults.append(f"EC2 in {region}: {said(error)}")
        return Found(machines, faults)

    def release(self, machines: Sequence[Machine]) -> Released:
        ended: list[Machine] = []
        faults: list[str] = []
        for region in dict.fromkeys(machine.place for machine in machines):
            for machine, fault in end_all(self._client(region), [it for it in machines if it.place == region]):
                if fault:
                    faults.append(f"{machine.kind} {machine.id}: {fault}")
                else:
                    ended.append(machine)
        return Released(ended, faults)

    def _try(self, asked: Try, lease: Lease, demand: Demand, runner: Registration) -> tuple[Machine | None, str]:
        """The machine, or why EC2 has certainly made none; raises `UserError` for every other fault."""
        from botocore.exceptions import BotoCoreError, ClientError

        options = machine_of(self._options, demand.machine)
        boot = user_data(lease, self._options, runner.configuration, self._clock(), spot=asked.spot)
        most = self._limits[demand.machine] if asked.spot else None
        try:
            image = self._image(asked.place)
            made = self._client(asked.place.region).run_instances(
                **run_instances(asked, lease, options, boot, image, most)
            )["Instances"][0]
        except (BotoCoreError, ClientError) as error:
            if code_of(error) in _NONE_FREE:
                return None, code_of(error)
            if code_of(error) == "IdempotentParameterMismatch":
                return self._made_before(lease), ""
            # An answer that was lost may be of a machine that was made: another place could make a second one.
            raise UserError(
                f"{said(error)} ({asked.name})", where=f"shard {lease.shard}", remedy=_remedy(error)
            ) from None
        region = asked.place.region
        price, _ = on_demand_price(asked.kind, region, options, self._prices)
        started = made.get("LaunchTime")
        return Machine(f"{region}/{made['InstanceId']}", lease, "pending", "machine", region, price, started), ""

    def _made_before(self, lease: Lease) -> Machine:
        """The machine of an earlier launch for the same lease, whose answer was lost."""
        found = self.find(Scope(lease.repository, lease.run, lease.attempt))
        mine = [it for it in found.machines if it.lease.id == lease.id and it.kind == "machine" and it.is_alive]
        if not mine:
            raise UserError(
                "its machine was made before and has ended",
                where=f"shard {lease.shard}",
                remedy="start the workflow anew with missing-from",
            )
        return mine[0]

    def _image(self, place: Ec2Place) -> Mapping[str, Any]:
        if place.image not in self._images:
            found = self._client(place.region).describe_images(ImageIds=[place.image])["Images"]
            if not found:
                raise UserError(f"image {place.image} does not exist in {place.region}", where="machines file")
            self._images[place.image] = found[0]
        return self._images[place.image]

    def _client(self, region: str) -> Any:
        if region not in self._clients:
            self._clients[region] = self._connect(region)
        return self._clients[region]

    def _price_in(self, region: str) -> Callable[[str], float | None]:
        listed = self._prices.usd_per_hour if region in self._prices.regions else {}
        return listed.get


def _remedy(error: Exception) -> str:
    code = code_of(error)
    if code in ("UnauthorizedOperation", "AuthFailure", "AccessDenied"):
        return "docs/machines.md lists the rights that the role needs"
    if code in ("NoCredentialsError", "PartialCredentialsError", "ExpiredToken", "RequestExpired"):
        return "log in to AWS in an earlier step of this job"
    return "check the machines file"
