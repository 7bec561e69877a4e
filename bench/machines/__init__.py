"""Machines for shards, from engines that exist, and none left behind.

`provision_all` makes one for each shard and `release_all` ends them, by what they carry and not by what was remembered;
`Engine` is what an engine offers (quote, launch, find, release, sweep); the two-strike rule of `sweep` is the same
for all of them. GitHub's side comes from outside, as a `Registry`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.machines.batch.client import aws_client, aws_errors
    from bench.machines.batch.engine import BatchEngine, BatchJob, ShardBatchEngine
    from bench.machines.batch.shard_place import PLAN, REPOSITORY, ShardPlace, pack_bundle, pack_inputs, unpack_inputs
    from bench.machines.ec2.engine import Ec2Engine
    from bench.machines.engine import Engine
    from bench.machines.facts import (
        Demand,
        Ending,
        Found,
        Machine,
        OutOfCapacity,
        Quote,
        Registration,
        Registry,
        Released,
        RunnerRecord,
        SweepReport,
        utc_now,
    )
    from bench.machines.lease import (
        EngineName,
        Lease,
        Scope,
        lease_of,
        narrow_label,
        new_runner_name,
        parse_runner_name,
    )
    from bench.machines.local import LabelEngine, LocalEngine
    from bench.machines.opening import Work, open_engine
    from bench.machines.provision import ReleaseReport, Run, check_budget, provision_all, release_all
    from bench.machines.settings import BatchMachine, BatchOptions, MachineSettings, SkyOptions, read_settings
    from bench.machines.sky.engine import SkyEngine
    from bench.machines.sky.server import SkyServer
    from bench.machines.sweeping import sweep
else:
    __getattr__ = lazy_face(__name__)
