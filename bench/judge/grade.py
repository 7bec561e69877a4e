"""The runner's side of judging: has a snapshot judged in forks of a trusted server and reads them as a `Grading`.

A judge that its own reading of the workspace has used up (time, memory, a crash) leaves which check it was at. That one
is failed, and a fresh fork goes on behind it, as long as judging time is left.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.base.errors import InfraError
from bench.formats.case import Case
from bench.judge.deadline import raise_starved
from bench.judge.fork_watch import Ended, Envelope
from bench.judge.forks import run_fork
from bench.judge.grading import Grading, PartialGrading, Verdict
from bench.sandbox import Gpu, NetworkAttempts, base_environment, cell_environment, handed_on, job_limits, wall_backstop

_GRACE_S = 30.0
"""Of waiting over the limit, for sandboxes that start and end."""
_MEMORY_MB = 4096
_SHARE_OF_MACHINE = 0.5
_LOG_BYTES = 8000
_MODULE = "bench.judge.process"


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
    services: Mapping[str, Path] = field(default_factory=dict)
    """Sockets of the services that the workspace's code may reach while it is judged, by name."""
    judging_journals: Path | None = None
    """Folder of what these write down."""
    scratch: Path | None = None
    """Where the judge keeps its copies; default: the system's temporary folder."""
    hostile: bool = False
    """Replace the agent's answers by hostile values (see bench.judge.hostile)."""
    arena: Path | None = None
    """Folder above the snapshots of many cells, which then share what is slow to start; default: nothing is shared."""
    run: str = ""
    cell: str = ""
    """Names by which what is left of the judge's sandboxes is recognised."""
    gpu: Gpu | None = None
    """The cell's own, which the workspace's code may use."""


def grade_submission(case: Case, submission: Submission) -> Grading:
    """Run the case's checks on a snapshot; raises `InfraError` when the judge itself fails."""
    return _grade(case, submission, None)


def grade_checks(case: Case, submission: Submission, ids: Sequence[str]) -> PartialGrading:
    """Run only the checks with these ids, each as it runs among all; ids that the case does not have are passed over.

    Raises `InfraError` when the judge itself fails.
    """
    grading = _grade(case, submission, ids)
    return PartialGrading(grading.verdicts, grading.broken)


def _grade(case: Case, submission: Submission, checks: Sequence[str] | None) -> Grading:
    limits = case.spec.limits
    environment = base_environment(
        home="/nonexistent",
        tmp=str(submission.scratch or tempfile.gettempdir()),
        python=submission.python,
        cpus=limits.cpus,
    )
    environment |= handed_on(submission.sandbox)
    clock = JudgingClock(limits.grade_s, hostile=submission.hostile)
    reading = _Reading(case)
    while True:
        orders = {**_orders(case, submission), "checks": checks, "first": reading.next, "spent": reading.spent}
        ended = run_fork(_MODULE, orders, clock.envelope(), environment=environment, python=submission.python)
        clock.spend(ended.cpu_s)
        if reading.take(ended, clock):
            return replace(reading.grading(submission.seed, ended.log), cpu_s=clock.cpu_s + reading.spent[0])


@dataclass
class JudgingClock:
    """The time that all forks of one grading share, in seconds. The one place that says how judging is limited."""

    grade_s: float
    hostile: bool = False
    """Many gradings in one: their reading has the time that they have for waiting."""
    _began: float = field(default_factory=time.monotonic)
    cpu_s: float = 0.0
    """Of the judge, so far."""

    @property
    def used_up(self) -> bool:
        """Whether a further fork would have no time."""
        envelope = self.envelope()
        return envelope.cpu_s <= 0 or envelope.wall_s <= 0

    def spend(self, cpu_s: float) -> None:
        self.cpu_s += cpu_s

    def envelope(self) -> Envelope:
        """Of the next fork: CPU time for what the judge reads and computes itself, wall time for all that it awaits."""
        wall_s = wall_backstop(self.grade_s) + _GRACE_S
        cpu_s = wall_s if self.hostile else self.grade_s
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _SHARE_OF_MACHINE / (1 << 20)
        return Envelope(
            cpu_s=cpu_s - self.cpu_s,
            wall_s=wall_s - (time.monotonic() - self._began),
            memory_mb=int(min(_MEMORY_MB, memory)),
            log_bytes=_LOG_BYTES,
        )


def _orders(case: Case, submission: Submission) -> dict[str, Any]:
    limits = case.spec.limits
    environment = cell_environment(case, submission.run, submission.cell, submission.gpu)
    return {
        "snapshot": str(submission.snapshot),
        "original": str(submission.original),
        "hidden": [str(submission.hidden), *(str(folder) for folder in case.parts("hidden"))],
        "journals": {"agent": str(submission.journals), "judging": str(submission.judging_journals or "")},
        "services": {case.spec.services[name].env: str(path) for name, path in submission.services.items()},
        "check": str(case.part("check.py")),
        "profile": submission.profile,
        "seed": submission.seed,
        "sandbox": submission.sandbox,
        "preload": case.spec.preload,
        "arena": str(submission.arena or ""),
        "limits": vars(job_limits(limits, wall_backstop(limits.grade_s))),
        "grade_s": limits.grade_s,
        "call_s": limits.call_s,
        "promises": [promise.quote for promise in case.spec.promises if promise.checks],
        "outputs": case.spec.outputs.model_dump(),
        "hostile": submission.hostile,
        "cell_environment": environment.facts(),
    }


class _Reading:
    """What the forks of one grading have said, put together."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._checks: list[dict[str, Any]] = []
        self._outcomes: dict[int, dict[str, Any]] = {}
        """By the check's number."""
        self._broken: str | None = None
        self.spent = [0.0, 0.0]
        """CPU time and available time of the workspace's code, in seconds."""
        self._attempts = NetworkAttempts()

    @property
    def next(self) -> int:
        """The first check without an outcome."""
        return len(self._outcomes)

    def take(self, ended: Ended, clock: JudgingClock) -> bool:
        """Add what a fork has said, and what its end says; returns whether the grading is complete.

        Raises `InfraError` for an end that no file of the workspace can be the reason of.
        """
        # An earlier fork got as far as a check: from then on the files may be why there is no time to get there again.
        known = bool(self._checks)
        began = self._read(ended.answer) or known
        if self._broken is not None or (self._checks and self.next == len(self._checks)):
            return True
        if ended.by == "starved":
            raise_starved(f"the judge of {self._case.id}")
        if ended.by == "outside":
            said = f"the judge of {self._case.id} was ended by signal {-ended.code}: {ended.log[-1000:]}"
            raise InfraError("judge_killed", said.rstrip())
        if not began:
            raise self._without_report(ended, clock)
        self._blame(ended, clock)
        return self.next == len(self._checks)

    def _read(self, answer: bytes) -> bool:
        """Understand the whole lines; returns whether a check had begun."""
        began = False
        for line in answer.split(b"\n")[:-1]:
            facts = json.loads(line)
            match facts:
                case {"infra": [cause, message]}:
                    raise InfraError(cause, message)
                case {"broken": text}:
                    self._broken = text
                case {"checks": checks}:
                    self._checks = checks
                case {"began": _}:
                    began = True
                case {"number": number}:
                    self._outcomes[number] = facts
                    self.spent = facts["spent"]
                case {"network_attempts": counts}:
                    self._attempts += NetworkAttempts(**counts)
        return began

    def _without_report(self, ended: Ended, clock: JudgingClock) -> InfraError:
        """It ended before it had opened anything of the agent's."""
        if ended.by in ("time", "memory"):
            return InfraError(
                "judge_timeout", f"judging {self._case.id} took over {clock.grade_s:g} s before any check"
            )
        last = (ended.log.splitlines() or ["it said nothing"])[-1]
        message = f"the judge of {self._case.id} ended without a report (status {ended.code}): {last}"
        return InfraError("judge_error", f"{message}\n{ended.log[-1000:]}")

    def _blame(self, ended: Ended, clock: JudgingClock) -> None:
        """Fail the check that was at work, and when no time is left, those after it, too."""
        number, raised = self.next, ""
        if ended.by == "time":
            message = f"judging was ended: reading the workspace's files took over {clock.grade_s:g} s"
        elif ended.by == "memory":
            message = "judging was ended: reading the workspace's files took more memory than a judge has"
        elif ended.by == "answer":
            message = "judging was ended: it reported more than a report may hold"
        else:
            how = f"crashed by {signal.Signals(-ended.code).name}" if ended.code < 0 else f"ended ({ended.code})"
            message = raised = f"the judge {how} in this check"
        self._outcomes[number] = _failed(number, message, raised)
        if clock.used_up:
            for later in range(number + 1, len(self._checks)):
                message = f"the judging time was used up by {self._checks[number]['id']}"
                self._outcomes[later] = _failed(later, message)

    def grading(self, seed: int, log: str) -> Grading:
        outcomes = [self._outcomes[number] for number in sorted(self._outcomes)]
        verdicts = [
            Verdict(**about, **{name: outcome[name] for name in ("value", "message", "seconds")})
            for about, outcome in zip(self._checks, outcomes, strict=True)
        ]
        raised = {
            verdict.id: outcome["raised"]
            for verdict, outcome in zip(verdicts, outcomes, strict=True)
            if outcome["raised"]
        }
        broken = self._broken or "".join(f"{name}: {text}" for name, text in list(raised.items())[:1])
        return Grading(
            verdicts=tuple(verdicts),
            metrics=_merged(outcomes, "metrics"),
            claims=_merged(outcomes, "claims"),
            broken=broken,
            raised=raised,
            seed=seed,
            network_attempts=self._attempts,
            log=log,
        )


def _failed(number: int, message: str, raised: str = "") -> dict[str, Any]:
    return {"number": number, "value": 0.0, "message": message, "raised": raised, "seconds": 0.0}


def _merged(outcomes: list[dict[str, Any]], kind: str) -> tuple[dict[str, Any], ...]:
    """What all checks have recorded; the last of a name counts."""
    return tuple({item["name"]: item for outcome in outcomes for item in outcome.get(kind, ())}.values())
