"""The engine that a machines file describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.base.errors import UserError
from bench.machines.batch.engine import BatchEngine, ShardBatchEngine
from bench.machines.ec2.engine import Ec2Engine
from bench.machines.engine import Engine
from bench.machines.lease import EngineName
from bench.machines.settings import MachineSettings
from bench.machines.sky.engine import SkyEngine
from bench.machines.sky.server import server_of


@dataclass(frozen=True)
class Work:
    """What machines are made for; empty where they are only to be found and ended."""

    inputs: Callable[[], bytes] = bytes
    """The archive of the plan and its agents, for machines that run shards by themselves."""
    strangers: Sequence[str] = ()
    """Agents of the plan that do not ship with the benchmark."""


def _ec2(settings: MachineSettings, work: Work) -> Engine | None:
    return Ec2Engine(settings.ec2) if settings.ec2 else None


def _batch(settings: MachineSettings, work: Work) -> Engine | None:
    if settings.batch is None:
        return None
    if settings.batch.mode == "shard":
        return ShardBatchEngine(settings.batch, work.inputs)
    return BatchEngine(settings.batch)


def _sky(settings: MachineSettings, work: Work) -> Engine | None:
    return SkyEngine(settings.sky, server_of(), work.strangers) if settings.sky else None


_OPENERS: Mapping[EngineName, Callable[[MachineSettings, Work], Engine | None]] = {
    "ec2": _ec2,
    "batch": _batch,
    "sky": _sky,
}


def open_engine(name: EngineName, settings: MachineSettings, work: Work, where: Path | str) -> Engine:
    """The engine called `name` as the machines file at `where` describes it; raises `UserError`."""
    engine = _OPENERS[name](settings, work)
    if engine is None:
        raise UserError(f"section `{name}` is missing", where=where, remedy="add it (docs/machines.md)")
    return engine
