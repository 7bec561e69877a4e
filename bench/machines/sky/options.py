"""What the caller says about machines that SkyPilot makes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bench.base.model import Model
from bench.formats.record import Name
from bench.machines.boot import RunnerHost

Infra = Annotated[str, Field(pattern=r"^[a-z0-9]+(/[A-Za-z0-9_.:@-]+){0,2}$", max_length=200)]


class SkyMachine(Model):
    """What a machine class of the experiment is in SkyPilot's clouds."""

    infra: list[Infra] = Field(min_length=1)
    """CLOUD, CLOUD/REGION, CLOUD/REGION/ZONE or k8s/CONTEXT. Tried in this order."""
    accelerators: str = Field("", pattern=r"^([A-Za-z0-9._-]+:[1-9][0-9]?)?$")
    """SkyPilot's name of the GPU and how many, such as L4:1."""
    image: str = Field(min_length=1, max_length=500, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/@-]*$")
    """SkyPilot's `image_id`: an image of the cloud, or docker:NAME@sha256:DIGEST."""
    disk_gb: int = Field(100, ge=8, le=16_000)
    usd_per_hour: float = Field(gt=0, le=1000)
    """The most that it may cost: SkyPilot makes nothing that is more expensive."""

    @property
    def gpus(self) -> int:
        return int(self.accelerators.partition(":")[2] or 0)

    @property
    def has_pods(self) -> bool:
        """Whether it may be a pod of Kubernetes."""
        return any(it.partition("/")[0] in ("k8s", "kubernetes") for it in self.infra)


class SkyOptions(RunnerHost):
    """The section `sky` of the machines file."""

    machines: dict[Name, SkyMachine] = Field(min_length=1)
    """By the name of the machine class in the experiment file."""
    spot: Literal["never", "prefer", "only"] = "never"
    identity: Literal["account", "itself"] = "account"
    """What the credentials on a machine may do: as much as SkyPilot's own account, or nothing but end that machine."""
