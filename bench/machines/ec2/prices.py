"""What machines of EC2 cost: the shipped list for on-demand ones, EC2 itself for spot ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from bench.base.errors import UserError
from bench.base.model import Model, read_json
from bench.machines.facts import Demand, Quote
from bench.machines.settings import Ec2Machine, Ec2Options

_ABOVE_SPOT = 1.2
"""A spot machine may cost so much of the present price: the request says it, so EC2 holds it."""


class PriceList(Model):
    """The shipped list."""

    date: str
    source: str
    regions: list[str]
    usd_per_hour: dict[str, float]


def shipped_prices() -> PriceList:
    """The list beside this module."""
    return read_json(Path(__file__).with_name("prices.json"), PriceList, remedy="install ml-dev-bench anew")


def on_demand_price(kind: str, region: str, machine: Ec2Machine, prices: PriceList) -> tuple[float, str]:
    """The price and where it is from; raises `UserError` where none is known.

    The caller's own is for all types of the class, so the list's stands where it is the higher one.
    """
    listed = prices.usd_per_hour.get(kind) if region in prices.regions else None
    told = machine.usd_per_hour
    if listed is not None and (told is None or listed >= told):
        return listed, f"list of {prices.date}"
    if told is not None:
        return told, "machines file"
    raise UserError(
        f"the price of {kind} in {region} is not known",
        where="machines file",
        remedy="name the price of the most expensive type as `usd_per_hour` of its machine",
    )


def spot_price(client: Any, kind: str, now: datetime) -> float | None:
    """The highest present price of the region's zones; None where EC2 has no such spot machine there."""
    answer = client.describe_spot_price_history(
        InstanceTypes=[kind],
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"],
        StartTime=now - timedelta(hours=1),
        EndTime=now,
    )
    return max((float(it["SpotPrice"]) for it in answer["SpotPriceHistory"]), default=None)


def quote_all(
    options: Ec2Options, demands: Sequence[Demand], client: Callable[[str], Any], now: datetime
) -> list[Quote]:
    """The most expensive place and type for each demand: which of them EC2 has is not known before."""
    prices = shipped_prices()
    worst: dict[str, tuple[float, str, str]] = {}
    for name in {demand.machine for demand in demands}:
        machine = machine_of(options, name)
        offers = []
        for place in options.places:
            for kind in machine.types:
                price, source = on_demand_price(kind, place.region, machine, prices)
                if options.spot == "only":
                    price, source = _most_for_spot(client(place.region), kind, price, source, now)
                offers.append((price, f"{kind} in {place.region}", source))
        worst[name] = max(offers)
    return [
        Quote(demand.shard, worst[demand.machine][1], worst[demand.machine][0], demand.hours, worst[demand.machine][2])
        for demand in demands
    ]


def _most_for_spot(client: Any, kind: str, on_demand: float, source: str, now: datetime) -> tuple[float, str]:
    present = spot_price(client, kind, now)
    if present is None or present * _ABOVE_SPOT >= on_demand:
        return on_demand, f"{source}, the limit for spot"
    return present * _ABOVE_SPOT, f"spot at {now:%Y-%m-%d %H:%M} UTC, and a fifth more"


def machine_of(options: Ec2Options, name: str) -> Ec2Machine:
    """What the class of the experiment is on EC2; raises `UserError`."""
    machine = options.machines.get(name)
    if machine is None:
        raise UserError(
            f"machine class {name!r} of the plan is not in `ec2.machines`",
            where="machines file",
            remedy=f"add it with its `types` (there are {', '.join(sorted(options.machines))})",
        )
    return machine
