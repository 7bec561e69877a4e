"""Sandboxes: where untrusted code runs, under the same limits in every back end.

A `Job` says what to run; `choose_sandbox` finds the back end (docker, bubblewrap, process);
`run_job` and `start` run it. Inside a sandbox only `bench.guest` is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.guest.first_process import NAMES
    from bench.sandbox.bubblewrap import end_orphans
    from bench.sandbox.cgroup import GROUP_PREFIX, Group, Owner
    from bench.sandbox.cgroup_location import counting_group, new_group, probe_cgroups
    from bench.sandbox.choose import choose_sandbox, handed_on, open_sandbox, probe_bubblewrap, probe_docker
    from bench.sandbox.control import NameQueries
    from bench.sandbox.disk_watch import disk_mb, room_needed
    from bench.sandbox.docker.client import find_address, find_engine, image_id, open_client
    from bench.sandbox.docker.container import CELL_LABEL, RUN_LABEL, leftovers
    from bench.sandbox.docker.engine import EngineError
    from bench.sandbox.docker.images import Build, build_case, build_shared, shared_image, shared_tag
    from bench.sandbox.docker.own_image import own_image
    from bench.sandbox.fork import CannotFork
    from bench.sandbox.gpu import Gpu, GpuRoots, find_gpus, missing_parts
    from bench.sandbox.job import CellEnvironment, Ended, Job, JobLimits, Mount, NetworkAttempts, Sandbox
    from bench.sandbox.limits import cell_environment, job_limits
    from bench.sandbox.orders import base_environment
    from bench.sandbox.process import ProcessSandbox
    from bench.sandbox.running import Running, Tail, run_job, start
    from bench.sandbox.starvation import Witness
    from bench.sandbox.time_limits import TimeLimits, TimeMeter, judging_limits, wall_backstop
    from bench.sandbox.warm import Preparation, WarmProcess, probe_forks, start_warm
else:
    __getattr__ = lazy_face(__name__)
