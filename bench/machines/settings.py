"""The machines file: where machines come from, in whose account, and for how long."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from bench.base.model import Model, read_yaml
from bench.machines.batch.options import BatchOptions
from bench.machines.ec2.options import Ec2Options
from bench.machines.sky.options import SkyOptions


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


def read_settings(path: Path) -> MachineSettings:
    """The machines file at `path`; raises `UserError`."""
    return read_yaml(path, MachineSettings)
