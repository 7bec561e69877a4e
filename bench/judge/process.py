"""The judge's child: a plain interpreter outside the workspace that runs one case's check.py.

Reads its orders from standard input, which stays open as a lifeline: when the runner is gone, so is the
child, and with it every subject. The report leaves through a private copy of standard output.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from bench.base.child import load_module, receive_orders
from bench.base.errors import InfraError
from bench.formats.verdict import OUTPUTS_ABOUT, OUTPUTS_CHECK
from bench.judge.checks import Check
from bench.judge.hostile import hostile_workspaces
from bench.judge.workspace import Scene, Workspace
from bench.sandbox import CellEnvironment, JobLimits, open_sandbox


def main() -> None:
    orders, report = receive_orders()
    scene = _scene(orders)
    sys.path[:0] = [str(folder) for folder in scene.hidden if folder.is_dir()]
    judge = _judge_hostile if orders["hostile"] else _judge_snapshot
    try:
        outcome = judge(scene, orders["outputs"])
    except InfraError as error:
        outcome = {"infra": [error.cause, str(error)]}
    report.write(json.dumps(outcome).encode())
    report.flush()
    # Past the interpreter's own end, which would wait for threads that a check has left.
    os._exit(0)


def _scene(orders: dict[str, Any]) -> Scene:
    return Scene(
        snapshot=Path(orders["snapshot"]),
        original=Path(orders["original"]),
        hidden=tuple(Path(folder) for folder in orders["hidden"]),
        journals=Path(orders["journals"]),
        case=Path(orders["case"]),
        profile=orders["profile"],
        seed=orders["seed"],
        sandbox=open_sandbox(orders["sandbox"]),
        preload=tuple(orders["preload"]),
        limits=JobLimits(**orders["limits"]),
        call_s=orders["call_s"],
        grade_s=orders["grade_s"],
        cell_environment=_cell_environment(orders["cell_environment"]),
    )


def _cell_environment(facts: dict[str, Any]) -> CellEnvironment:
    folder = facts["environment"]
    return CellEnvironment(**{**facts, "environment": Path(folder) if folder else None})


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


def _judge_snapshot(scene: Scene, outputs: dict[str, Any]) -> dict[str, Any]:
    ws = Workspace(scene)
    try:
        outcome = _judge(ws, scene, outputs)
    finally:
        ws.close()
    return {**outcome, "network_attempts": vars(ws.findings.network_attempts)}


def _judge_hostile(scene: Scene, outputs: dict[str, Any]) -> dict[str, Any]:
    """Judge nonsense of every kind; `broken` names the first that a check did not simply refuse or accept."""
    outcome: dict[str, Any] = {}
    for kind, ws in hostile_workspaces(scene):
        outcome = _judge(ws, scene, outputs)
        ws.close()
        if outcome["broken"]:
            outcome["broken"] = f"where the agent's answer is hostile ({kind}): {outcome['broken']}"
            break
    return outcome


def _judge(ws: Workspace, scene: Scene, outputs: dict[str, Any]) -> dict[str, Any]:
    verdicts: list[dict[str, Any]] = []
    broken = ""
    try:
        checks = [(check, "case") for check in load_checks(scene.case / "check.py")]
        if outputs["files"]:
            checks.insert(0, (_outputs_check(outputs), "framework"))
        if not checks:
            broken = "check.py defines no check"
    except Exception:
        checks, broken = [], f"check.py cannot be loaded: {traceback.format_exc(limit=-3)}"
    for check, origin in checks:
        began = time.monotonic()
        try:
            value, message = _value(check(ws)), ""
        except AssertionError as failure:
            value, message = 0.0, _clean(str(failure)) or "an assertion without a message failed"
        except InfraError:
            raise
        except Exception as fault:
            if isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT):
                raise InfraError("disk_full", f"{check.id}: {fault}") from None
            broken = f"{check.id}: {traceback.format_exc(limit=-3)}"
            break
        verdicts.append(
            {
                "id": check.id,
                "about": check.about,
                "weight": check.weight,
                "required": check.required,
                "guard": check.guard,
                "value": value,
                "message": message,
                "origin": origin,
                "seconds": round(time.monotonic() - began, 4),
            }
        )
    findings = ws.findings
    return {
        "verdicts": verdicts,
        "broken": _clean(broken),
        "seed": ws.seed,
        "metrics": list(findings.metrics.values()),
        "claims": list(findings.claims.values()),
    }


def _clean(text: str) -> str:
    """The agent's words may hold lone surrogates, which cannot be written as UTF-8."""
    return text[:2000].encode("utf-8", "replace").decode()


def _value(result: Any) -> float:
    if result is None or result is True:
        return 1.0
    value = float(result)
    if not 0 <= value <= 1:
        raise ValueError(f"a check returns a number in [0, 1], not {value}")
    return value
