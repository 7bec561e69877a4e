"""The judge: a fork of the trusted server, outside the workspace, that runs one case's check.py.

Its report is one JSON object a line. It names all checks before it opens anything of the agent's, and says of each when
it begins and how it came out: so whatever ends this process in the middle of a check leaves evidence of which.
"""

from __future__ import annotations

import errno
import json
import random
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from bench.base.child import load_module
from bench.base.errors import InfraError
from bench.formats.verdict import OUTPUTS_ABOUT, OUTPUTS_CHECK
from bench.judge.checks import Check
from bench.judge.hostile import hostile_workspaces
from bench.judge.scene import Scene
from bench.judge.warm_pool import leased
from bench.judge.workspace import Workspace
from bench.sandbox import CellEnvironment, JobLimits, open_sandbox

_MOST_TEXT = 2000
_MOST_FINDINGS = 200
NO_MEMORY = "reading the workspace's files took more memory than a judge has"


class _Report:
    """Lines to the runner."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def say(self, **facts: Any) -> None:
        self._stream.write(json.dumps(facts).encode() + b"\n")
        self._stream.flush()


def serve(orders: dict[str, Any], answers: BinaryIO) -> None:
    """Judge what the orders name, from the check of number `first` on."""
    report = _Report(answers)
    try:
        scene = _scene(orders)
        sys.path[:0] = [str(folder) for folder in scene.hidden if folder.is_dir()]
        checks = _selected(_checks(scene, orders["outputs"]), orders["checks"])
        if isinstance(checks, str):
            report.say(broken=_clean(checks))
        elif orders["hostile"]:
            report.say(broken=_clean(_judge_hostile(scene, checks)))
        else:
            report.say(checks=[_about(check, origin) for check, origin in checks])
            _judge_snapshot(scene, checks, orders["first"], report)
    except InfraError as error:
        report.say(infra=[error.cause, str(error)])


def _scene(orders: dict[str, Any]) -> Scene:
    sandbox, environment = open_sandbox(orders["sandbox"]), CellEnvironment.of(orders["cell_environment"])
    return Scene(
        snapshot=Path(orders["snapshot"]),
        original=Path(orders["original"]),
        hidden=tuple(Path(folder) for folder in orders["hidden"]),
        journals={phase: Path(folder) for phase, folder in orders["journals"].items() if folder},
        services={variable: Path(path) for variable, path in orders["services"].items()},
        check=Path(orders["check"]),
        profile=orders["profile"],
        seed=orders["seed"],
        sandbox=sandbox,
        preload=tuple(orders["preload"]),
        limits=JobLimits(**orders["limits"]),
        call_s=orders["call_s"],
        grade_s=orders["grade_s"],
        cell_environment=environment,
        spent=orders["spent"],
        promises=tuple(orders["promises"]),
        warm=leased(sandbox, orders, environment),
    )


def load_checks(path: Path) -> list[Check]:
    """The checks of a check.py in the order of their definition."""
    return [value for value in vars(load_module("check", path)).values() if isinstance(value, Check)]


def _outputs_check(outputs: dict[str, Any]) -> Check:
    def outputs_present(ws: Workspace) -> None:
        faults = []
        for item in outputs["files"]:
            try:
                size = ws.path(item["path"]).stat().st_size
                assert size <= item["max_mb"] * (1 << 20), f"{item['path']} is larger than {item['max_mb']:g} MiB"
            except AssertionError as fault:
                faults.append(str(fault))
        assert not faults, "; ".join(faults)

    outputs_present.__name__, outputs_present.__doc__ = OUTPUTS_CHECK, OUTPUTS_ABOUT
    guard = outputs["weight"] == 0
    return Check(outputs_present, float(outputs["weight"]), required=not guard, guard=guard)


_Checks = Sequence[tuple[Check, str]]
"""With the origin of each: `case` or `framework`."""


def _checks(scene: Scene, outputs: dict[str, Any]) -> _Checks | str:
    """All checks in order, or why there are none."""
    try:
        checks = [(check, "case") for check in load_checks(scene.check)]
    except Exception:
        return f"check.py cannot be loaded: {traceback.format_exc(limit=-3)}"
    if outputs["files"]:
        checks.insert(0, (_outputs_check(outputs), "framework"))
    return checks or "check.py defines no check"


def _selected(checks: _Checks | str, ids: Sequence[str] | None) -> _Checks | str:
    """Those with these ids, in the case's order; `ids` None: all of them."""
    if isinstance(checks, str) or ids is None:
        return checks
    return [it for it in checks if it[0].id in ids] or f"the case has none of the checks {', '.join(ids)}"


def _about(check: Check, origin: str) -> dict[str, Any]:
    return {
        "id": check.id,
        "about": check.about,
        "weight": check.weight,
        "required": check.required,
        "guard": check.guard,
        "origin": origin,
    }


def _judge_snapshot(scene: Scene, checks: _Checks, first: int, report: _Report) -> None:
    ws = Workspace(scene)
    try:
        for number in range(first, len(checks)):
            report.say(began=number)
            report.say(number=number, **_outcome(checks[number][0], ws), **_found(ws), spent=ws.spent)
    finally:
        ws.close()
    report.say(network_attempts=vars(ws.findings.network_attempts))


def _outcome(check: Check, ws: Workspace) -> dict[str, Any]:
    """How a check came out: its value and message, and what it raised if that is not a verdict."""
    # A stream of each check's own: what it draws does not depend on which checks came before it in this process.
    ws.rng = random.Random(f"{ws.seed}:{check.id}")
    began = time.monotonic()
    value, message, raised = 0.0, "", ""
    try:
        earned = _value(check(ws))
        if len(ws.findings.metrics) + len(ws.findings.claims) > _MOST_FINDINGS:
            raise ValueError(f"a check records at most {_MOST_FINDINGS} metrics and claims")
        value = earned
    except AssertionError as failure:
        message = str(failure) or "an assertion without a message failed"
    except MemoryError:
        message = NO_MEMORY
    except InfraError:
        raise
    except Exception as fault:
        full = isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT)
        if full and not ws.copies.fill_the_disk():
            raise InfraError("disk_full", f"{check.id}: {fault}") from None
        message = f"the check raised {''.join(traceback.format_exception_only(fault)).strip()}"
        raised = traceback.format_exc(limit=-3)
    seconds = round(time.monotonic() - began, 4)
    return {"value": value, "message": _clean(message), "raised": _clean(raised), "seconds": seconds}


def _found(ws: Workspace) -> dict[str, Any]:
    """What the check that ended has recorded."""
    metrics, claims = (list(found.values())[:_MOST_FINDINGS] for found in (ws.findings.metrics, ws.findings.claims))
    ws.findings.metrics.clear()
    ws.findings.claims.clear()
    return {"metrics": metrics, "claims": claims}


def _judge_hostile(scene: Scene, checks: _Checks) -> str:
    """Judge nonsense of every kind; returns the first that a check did not simply refuse or accept."""
    for kind, ws in hostile_workspaces(scene):
        for check, _ in checks:
            outcome = _outcome(check, ws)
            raised = outcome["raised"] or (outcome["message"] == NO_MEMORY and NO_MEMORY)
            if raised:
                ws.close()
                return f"where the agent's answer is hostile ({kind}): {check.id}: {raised}"
        ws.close()
    return ""


def _clean(text: str) -> str:
    """The agent's words may hold lone surrogates, which cannot be written as UTF-8."""
    return text[:_MOST_TEXT].encode("utf-8", "replace").decode()


def _value(result: Any) -> float:
    if result is None or result is True:
        return 1.0
    value = float(result)
    if not 0 <= value <= 1:
        raise ValueError(f"a check returns a number in [0, 1], not {value}")
    return value
