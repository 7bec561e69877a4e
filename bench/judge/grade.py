"""The runner's side of judging: starts the judge's child on a snapshot and reads its report as a `Grading`."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.base.child import log_tail, python_child
from bench.base.errors import InfraError
from bench.formats.case import Case
from bench.formats.verdict import score_of, success_of
from bench.sandbox import NetworkAttempts, base_environment, cell_environment, handed_on, job_limits

_GRACE_S = 30.0
_EXIT_S = 10.0
_LOG_BYTES = 8000


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check."""

    id: str
    about: str
    weight: float
    required: bool
    guard: bool
    value: float
    message: str
    seconds: float
    origin: str = "case"


@dataclass(frozen=True)
class Grading:
    """The outcome of all checks of one workspace."""

    verdicts: tuple[Verdict, ...]
    metrics: tuple[dict[str, Any], ...] = ()
    claims: tuple[dict[str, Any], ...] = ()
    broken: str = ""
    """The check that failed by its own fault, and how; empty when none did. A broken grading has no score."""
    seed: int = 0
    network_attempts: NetworkAttempts = field(default_factory=NetworkAttempts)
    """Tries of the agent's code to reach a network while it was judged."""
    log: str = field(default="", compare=False)

    @property
    def score(self) -> float:
        """The score of all checks, in [0, 1]."""
        return score_of(self.verdicts)

    @property
    def success(self) -> bool:
        """Every required check and every guard passed."""
        return not self.broken and success_of(self.verdicts)

    @property
    def failed(self) -> list[str]:
        """Ids of the checks that did not pass."""
        return [verdict.id for verdict in self.verdicts if verdict.value < 1]


@dataclass(frozen=True)
class Submission:
    """What is to be judged, and beside what."""

    snapshot: Path
    original: Path
    hidden: Path
    """What data.py built for the judge."""
    journals: Path
    profile: str
    sandbox: str
    seed: int = field(default_factory=lambda: secrets.randbits(128))
    """Of the judge's fresh inputs."""
    python: Path = Path(sys.executable)
    scratch: Path | None = None
    """Where the judge keeps its copies; default: the system's temporary folder."""
    hostile: bool = False
    """Replace the agent's answers by hostile values (see bench.judge.hostile)."""
    run: str = ""
    cell: str = ""
    """Names by which what is left of the judge's sandboxes is recognised."""


def grade_submission(case: Case, submission: Submission) -> Grading:
    """Run the case's checks on a snapshot; raises `InfraError` when the judge itself fails."""
    orders = _orders(case, submission)
    limits = case.spec.limits
    env = base_environment(
        home="/nonexistent",
        tmp=str(submission.scratch or tempfile.gettempdir()),
        python=submission.python,
        cpus=limits.cpus,
    )
    env |= handed_on(submission.sandbox)
    with python_child("bench.judge.process", orders, env=env, python=submission.python, cwd="/") as child:
        report = child.answer(limits.grade_s + _GRACE_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if report is not None:
                code = child.popen.wait(_EXIT_S)
                return _grading(case, report, log_tail(child.log, _LOG_BYTES), code)
    raise InfraError("judge_timeout", f"judging {case.id} took over {limits.grade_s + _GRACE_S:g} s")


def _orders(case: Case, submission: Submission) -> dict[str, Any]:
    limits = case.spec.limits
    environment = cell_environment(case, submission.run, submission.cell)
    return {
        "snapshot": str(submission.snapshot),
        "original": str(submission.original),
        "hidden": [str(submission.hidden), str(case.part("hidden"))],
        "journals": str(submission.journals),
        "case": str(case.folder),
        "profile": submission.profile,
        "seed": submission.seed,
        "sandbox": submission.sandbox,
        "preload": case.spec.preload,
        "limits": vars(job_limits(limits, limits.grade_s + _GRACE_S)),
        "call_s": limits.call_s,
        "grade_s": limits.grade_s,
        "outputs": case.spec.outputs.model_dump(),
        "hostile": submission.hostile,
        "cell_environment": {**vars(environment), "environment": str(environment.environment or "")},
    }


def _grading(case: Case, report: bytes, log: str, code: int) -> Grading:
    if code < 0:
        # It may have been killed in the middle of its report.
        raise InfraError("judge_killed", f"the judge of {case.id} was ended by signal {-code}: {log[-1000:]}".rstrip())
    if not report:
        last = (log.splitlines() or ["it said nothing"])[-1]
        message = f"the judge of {case.id} ended without a report (status {code}): {last}\n{log[-1000:]}"
        raise InfraError("judge_error", message)
    data = json.loads(report)
    if "infra" in data:
        raise InfraError(*data["infra"])
    return Grading(
        verdicts=tuple(Verdict(**verdict) for verdict in data["verdicts"]),
        metrics=tuple(data["metrics"]),
        claims=tuple(data["claims"]),
        broken=data["broken"],
        seed=data["seed"],
        network_attempts=NetworkAttempts(**data.get("network_attempts", {})),
        log=log,
    )
