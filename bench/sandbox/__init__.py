"""Sandboxes: where untrusted code runs, under the same limits in every back end.

A `Job` says what to run; `choose_sandbox` finds the back end (docker, bubblewrap, process);
`run_job` and `start` run it. Inside a sandbox only `bench.guest` is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.sandbox.bubblewrap import end_orphans as end_orphans
    from bench.sandbox.cgroup import GROUP_PREFIX as GROUP_PREFIX
    from bench.sandbox.cgroup import Owner as Owner
    from bench.sandbox.cgroup_location import probe_cgroups as probe_cgroups
    from bench.sandbox.choose import choose_sandbox as choose_sandbox
    from bench.sandbox.choose import handed_on as handed_on
    from bench.sandbox.choose import open_sandbox as open_sandbox
    from bench.sandbox.choose import probe_bubblewrap as probe_bubblewrap
    from bench.sandbox.choose import probe_docker as probe_docker
    from bench.sandbox.control import disk_mb as disk_mb
    from bench.sandbox.docker.client import find_address as find_address
    from bench.sandbox.docker.client import find_engine as find_engine
    from bench.sandbox.docker.client import image_id as image_id
    from bench.sandbox.docker.client import open_client as open_client
    from bench.sandbox.docker.container import CELL as CELL
    from bench.sandbox.docker.container import RUN as RUN
    from bench.sandbox.docker.container import leftovers as leftovers
    from bench.sandbox.docker.engine import EngineError as EngineError
    from bench.sandbox.docker.images import Build as Build
    from bench.sandbox.docker.images import build_case as build_case
    from bench.sandbox.docker.images import build_shared as build_shared
    from bench.sandbox.docker.images import shared_image as shared_image
    from bench.sandbox.docker.images import shared_tag as shared_tag
    from bench.sandbox.job import CellEnvironment as CellEnvironment
    from bench.sandbox.job import Ended as Ended
    from bench.sandbox.job import Job as Job
    from bench.sandbox.job import JobLimits as JobLimits
    from bench.sandbox.job import Mount as Mount
    from bench.sandbox.job import NetworkAttempts as NetworkAttempts
    from bench.sandbox.job import Sandbox as Sandbox
    from bench.sandbox.job import base_environment as base_environment
    from bench.sandbox.limits import cell_environment as cell_environment
    from bench.sandbox.limits import job_limits as job_limits
    from bench.sandbox.process import ProcessSandbox as ProcessSandbox
    from bench.sandbox.running import Running as Running
    from bench.sandbox.running import run_job as run_job
    from bench.sandbox.running import start as start
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "bubblewrap": "end_orphans",
            "cgroup": "GROUP_PREFIX Owner",
            "cgroup_location": "probe_cgroups",
            "choose": "choose_sandbox handed_on open_sandbox probe_bubblewrap probe_docker",
            "control": "disk_mb",
            "docker.client": "find_address find_engine image_id open_client",
            "docker.container": "CELL RUN leftovers",
            "docker.engine": "EngineError",
            "docker.images": "Build build_case build_shared shared_image shared_tag",
            "job": "CellEnvironment Ended Job JobLimits Mount NetworkAttempts Sandbox base_environment",
            "limits": "cell_environment job_limits",
            "process": "ProcessSandbox",
            "running": "Running run_job start",
        },
    )
