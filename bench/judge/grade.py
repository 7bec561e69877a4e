"""The runner's side of judging: start the judge's child on a snapshot, read its report."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.case import Case, Output
from bench.errors import InfraError
from bench.judge.report import Grading, Verdict
from bench.lifeline import send_orders
from bench.limits import job_limits, setting_of
from bench.sandbox.choice import handed_on
from bench.sandbox.job import Attempts
from bench.sandbox.orders import base_environment

_GRACE_S = 30.0
_LOG_BYTES = 8000


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
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    python: Path = Path(sys.executable)
    scratch: Path | None = None
    """Where the judge keeps its copies; default: the system's temporary folder."""
    hostile: bool = False
    """Replace the agent's answers by hostile values (see bench.judge.hostile)."""
    run: str = ""
    cell: str = ""
    """Names by which what is left of the judge's sandboxes is recognised."""


def grade(case: Case, submission: Submission) -> Grading:
    """Run the case's checks on a snapshot; raises `InfraError` when the judge itself fails."""
    orders = _orders(case, submission)
    limits = case.spec.limits
    argv = [str(submission.python), "-I", "-B", "-c", "from bench.judge.child import main; main()"]
    env = base_environment(
        home="/nonexistent",
        tmp=str(submission.scratch or tempfile.gettempdir()),
        python=submission.python,
        cpus=limits.cpus,
    )
    env |= handed_on(submission.sandbox)
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        cwd="/",
        start_new_session=True,
    ) as child:
        try:
            report, log = _converse(child, orders, limits.grade_s + _GRACE_S)
        except subprocess.TimeoutExpired:
            raise InfraError("judge_timeout", f"judging {case.id} took over {limits.grade_s + _GRACE_S:g} s") from None
        finally:
            child.kill()
    return _grading(case, report, log.decode("utf-8", "replace")[-_LOG_BYTES:], child.returncode)


def _converse(child: subprocess.Popen[bytes], orders: dict[str, Any], seconds: float) -> tuple[bytes, bytes]:
    """Send the orders, keep standard input open as the child's lifeline, and collect what it says."""
    import threading

    assert child.stdout is not None and child.stderr is not None
    stderr = child.stderr
    log = bytearray()

    def drain() -> None:
        while part := stderr.read1(1 << 16):  # type: ignore[attr-defined]
            log.extend(part)
            del log[: -4 * _LOG_BYTES]

    timer = threading.Timer(seconds, child.kill)
    drainer = threading.Thread(target=drain, daemon=True)
    drainer.start()
    timer.start()
    try:
        send_orders(child, orders)
        report = child.stdout.read()
    finally:
        expired = not timer.is_alive()
        timer.cancel()
    if expired:
        raise subprocess.TimeoutExpired("judge", seconds)
    child.wait(10)
    drainer.join(1)
    return report, bytes(log)


def _orders(case: Case, submission: Submission) -> dict[str, Any]:
    limits = case.spec.limits
    setting = setting_of(case, submission.run, submission.cell)
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
        "outputs": {"weight": case.spec.outputs.weight, "files": [_output(item) for item in case.spec.outputs.files]},
        "hostile": submission.hostile,
        "setting": {**vars(setting), "environment": str(setting.environment or "")},
    }


def _output(item: Output) -> dict[str, Any]:
    return {"path": item.path, "max_mb": item.max_mb}


def _grading(case: Case, report: bytes, log: str, code: int | None) -> Grading:
    if code is not None and code < 0:
        # It may have been killed in the middle of its report.
        raise InfraError("judge_killed", f"the judge of {case.id} was ended by signal {-code}: {log[-1000:]}".rstrip())
    if not report:
        last = (log.strip().splitlines() or ["it said nothing"])[-1]
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
        attempts=Attempts(**data.get("attempts", {})),
        log=log,
    )
