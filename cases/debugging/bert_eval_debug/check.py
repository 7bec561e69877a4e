"""Runs the evaluation on its own checkpoint and on two others, whose accuracies data.py has worked out."""

import json
from pathlib import Path
from typing import Any

from bench.judge import Workspace, check, check_claim, json_number, once, run_command

FILES = (
    "best_checkpoint/config.json",
    "best_checkpoint/model.safetensors",
    "best_checkpoint/vocab.txt",
    "data/val.jsonl",
)
METRICS, KEY, TOLERANCE = "eval_metrics.json", "final_val_accuracy", 0.05
EARLIER = {"first": 98.765, "second": 12.345}
"""What the report of an earlier run says: one more, one less than what is right."""


def assert_true(ws: Workspace, name: str) -> None:
    """The report is the accuracy in per cent, to three decimals."""
    facts, value = json.loads(Path(ws.hidden("facts.json")).read_text())[name], reported(ws, name)
    check_claim(ws, name, value, float(facts["right"]), TOLERANCE)
    rows = int(facts["rows"])
    share = 100 * round(value * rows / 100) / rows
    assert abs(value - share) <= 0.001, f"{name}: {value} is not a share of {rows} rows to three decimals"


@once
def reported(ws: Workspace, name: str) -> float:
    """What the script reports of a checkpoint and split."""
    inputs: dict[str, Any] = {}
    if name != "visible":
        inputs |= {path: ws.hidden(f"{name}/{path}") for path in FILES}
        inputs[METRICS] = json.dumps({KEY: EARLIER[name]})
    ran = run_command(ws, "python evaluate.py", outputs=[METRICS], inputs=inputs, timeout=60)
    return json_number(ran, METRICS, KEY)


@check(weight=3, required=True)
def best_accuracy_is_reported(ws: Workspace) -> None:
    """On the checkpoint of the workspace the script reports the best validation accuracy of the log."""
    assert_true(ws, "visible")


@check(weight=7, required=True)
def other_checkpoints_are_evaluated(ws: Workspace) -> None:
    """The reports are right for two other checkpoints and splits; an earlier report lies beside each."""
    for name in ("first", "second"):
        assert_true(ws, name)
