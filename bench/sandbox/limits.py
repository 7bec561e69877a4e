"""What a case asks for, as its sandboxed jobs get it."""

from __future__ import annotations

from dataclasses import fields

from bench.formats.case import Case
from bench.formats.case_parts import Limits
from bench.sandbox.gpu import Gpu
from bench.sandbox.job import CellEnvironment, JobLimits

_LIMITS = {limit.name for limit in fields(JobLimits)}


def job_limits(limits: Limits, wall_s: float) -> JobLimits:
    """The limits of a job of `wall_s` seconds."""
    return JobLimits(wall_s, **limits.model_dump(include=_LIMITS))


def cell_environment(case: Case, run: str, cell: str, gpu: Gpu | None = None) -> CellEnvironment:
    """What all jobs of a cell of `case` have in common; gpu: the cell's own, where the case needs one."""
    environment = case.part("environment")
    return CellEnvironment(gpu, environment if environment.is_dir() else None, run, cell)
