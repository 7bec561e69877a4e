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
    "train_logs.txt",
)
MODULES = ("train.py", "utils.py", "encoder.py")
METRICS, KEY, TOLERANCE, LEFT = "eval_metrics.json", "final_val_accuracy", 0.05, "by an earlier run"
EARLIER = {"first": 98.765, "second": 12.345}
"""What the report of an earlier run says: one more, one less than what is right."""
# In one folder, so that what the script keeps of one split is there when it evaluates the next.
TWICE = f"python evaluate.py && mv {METRICS} visible.json && cp -rf first/. . && python evaluate.py"


def assert_true(ws: Workspace, name: str, value: float) -> None:
    """The report is the accuracy in per cent, to three decimals."""
    facts = json.loads(Path(ws.hidden("facts.json")).read_text())[name]
    check_claim(ws, name, value, float(facts["right"]), TOLERANCE)
    rows = int(facts["rows"])
    share = 100 * round(value * rows / 100) / rows
    assert abs(value - share) <= 0.001, f"{name}: {value} is not a share of {rows} rows to three decimals"


def assert_left_alone(ws: Workspace, ran: Any, name: str) -> None:
    """The script changed none of the files that stay as they are."""
    given: dict[str, Any] = {path: ws.hidden(f"{name}/{path}") for path in FILES}
    given |= {path: ws.original(path) for path in MODULES}
    for path, file in given.items():
        same = ran.exists(path) and ran.bytes(path) == file.read_bytes()
        assert same, f"evaluate.py changed {path}, which must stay as it is"


@once
def evaluated_twice(ws: Workspace) -> Any:
    """The checkpoint of the workspace is evaluated, and the first of the others in the same folder."""
    return ws.run(
        ["sh", "-c", TWICE], inputs=others(ws, "first", "first/"), remove=[METRICS, "visible.json"], timeout=120
    )


def others(ws: Workspace, name: str, below: str) -> dict[str, Any]:
    """Another checkpoint and split, and the report of an earlier run."""
    return {below + path: ws.hidden(f"{name}/{path}") for path in FILES} | {
        below + METRICS: json.dumps({KEY: EARLIER[name], "written": LEFT})
    }


@check(weight=3, required=True)
def best_accuracy_is_reported(ws: Workspace) -> None:
    """On the checkpoint of the workspace the script reports the best validation accuracy of the log."""
    assert_true(ws, "visible", json_number(evaluated_twice(ws), "visible.json", KEY))


@check(weight=7, required=True)
def other_checkpoints_are_evaluated(ws: Workspace) -> None:
    """The reports are right for two other checkpoints and splits; an earlier report lies beside each."""
    assert_true(ws, "first", json_number(evaluated_twice(ws).ok(), METRICS, KEY))
    ran = run_command(ws, "python evaluate.py", outputs=[METRICS], inputs=others(ws, "second", ""), timeout=60)
    assert_true(ws, "second", json_number(ran, METRICS, KEY))
    assert_left_alone(ws, ran, "second")
    assert LEFT not in ran.text(METRICS), "the report still holds what an earlier one said: it is not written anew"
