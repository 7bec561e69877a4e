"""A case's limits as those of one sandboxed job."""

from __future__ import annotations

from bench.case import Limits
from bench.sandbox.job import JobLimits


def job_limits(limits: Limits, wall_s: float) -> JobLimits:
    """The limits of a job of `wall_s` seconds."""
    return JobLimits(
        wall_s=wall_s,
        memory_mb=limits.memory_mb,
        cpus=limits.cpus,
        processes=limits.processes,
        open_files=limits.open_files,
        disk_mb=limits.disk_mb,
        output_mb=limits.output_mb,
    )
