"""The machines file: where machines come from, in whose account, and for how long; a section for each engine."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from bench.base.model import Model, read_yaml
from bench.formats.names import Name
from bench.machines.boot import RunnerHost, check_runner_age

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


Mode = Literal["runner", "shard"]


class BatchMachine(Model):
    """What serves one machine class of the experiment file: a queue whose machines hold one job each."""

    queue: Annotated[str, Field(min_length=1, max_length=500)]
    """Name or ARN."""
    definition: Annotated[str, Field(pattern=r"^[A-Za-z0-9_:/-]+:[0-9]+$")]
    """NAME:REVISION, or the ARN with it: a name alone would change its meaning with the next revision."""
    usd_per_hour: float = Field(gt=0)
    """Of the instance type, on demand: a spot machine costs at most this."""
    priced: date
    """Day on which the price was looked up."""


class BatchOptions(Model):
    """The field `batch` of the machines file."""

    mode: Mode = "runner"
    """runner: the job is the self-hosted runner of its matrix entry. shard: the job runs the shard by itself."""
    region: Region
    wait_hours: float = Field(2.0, ge=0, le=48)
    """For which a job may wait for its machine; one that starts later ends at once, and is planned again."""
    machines: dict[Name, BatchMachine] = Field(min_length=1)
    """By the names of machine classes."""
    bundles: Annotated[str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._/-]*)?$")] | None = None
    """Mode shard: where each job has a prefix of its own."""
    runner_released: date | None = None
    """Mode runner: the day on which the version of the runner in the image was released."""

    @model_validator(mode="after")
    def _mode_has_what_it_needs(self) -> BatchOptions:
        if self.mode == "shard" and self.bundles is None:
            raise ValueError("mode shard needs `bundles`, the s3:// prefix of the shards' bundles")
        if self.mode == "runner" and self.runner_released is None:
            raise ValueError("mode runner needs `runner_released`, the release day of the runner in the image")
        return self


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


class RunnerHome(Model):
    """Where GitHub keeps the records of the runners."""

    organisation: str = ""
    """Empty: the repository."""
    group: int = Field(1, ge=1)
    """Number of the runner group; 1 is the default one."""


class MachineSettings(Model):
    """The content of the machines file."""

    max_hours: float = Field(6.0, gt=0, le=120)
    """No machine lives longer."""
    runners: RunnerHome = RunnerHome()
    ec2: Ec2Options | None = None
    batch: BatchOptions | None = None
    sky: SkyOptions | None = None

    def check_runner_age(self, engine: str, today: date) -> None:
        """Raise `UserError` where GitHub may refuse the runner that this engine's machines bring."""
        told = {"ec2": self.ec2, "sky": self.sky, "batch": self.batch}.get(engine)
        if told is not None and not (isinstance(told, BatchOptions) and told.mode == "shard"):
            check_runner_age(told.runner_released, today, engine)


def read_settings(path: Path) -> MachineSettings:
    """The machines file at `path`; raises `UserError`."""
    return read_yaml(path, MachineSettings)
