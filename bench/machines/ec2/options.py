"""What the caller says about machines of EC2."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bench.base.model import Model
from bench.formats.record import Name
from bench.machines.boot import RunnerHost

Region = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")]
InstanceType = Annotated[str, Field(pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$")]


class Ec2Place(Model):
    """A region, with what exists there."""

    region: Region
    image: str = Field(pattern=r"^ami-[0-9a-f]+$")
    subnets: list[Annotated[str, Field(pattern=r"^subnet-[0-9a-f]+$")]] = Field(min_length=1)
    """Tried in this order: they lie in different zones, of which one may have a machine."""
    security_groups: list[Annotated[str, Field(pattern=r"^sg-[0-9a-f]+$")]] = []


class Ec2Machine(Model):
    """What a machine class of the experiment is on EC2."""

    types: list[InstanceType] = Field(min_length=1)
    """Tried in this order."""
    disk_gb: int = Field(100, ge=8, le=16_000)
    usd_per_hour: float | None = Field(None, gt=0)
    """The most that any of the types costs in any place; needed for types and regions without a shipped price."""


class Ec2Options(RunnerHost):
    """The section `ec2` of the machines file."""

    places: list[Ec2Place] = Field(min_length=1)
    """Tried in this order."""
    machines: dict[Name, Ec2Machine] = Field(min_length=1)
    """By the name of the machine class in the experiment file."""
    spot: Literal["never", "prefer", "only"] = "never"
    also_sweep: list[Region] = []
    """Regions in which earlier runs may have left something."""

    @property
    def regions(self) -> list[str]:
        """All regions in which a machine of ours may be."""
        return list(dict.fromkeys([*(place.region for place in self.places), *self.also_sweep]))
