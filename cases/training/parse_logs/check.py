"""Does the analysis say what the generator of the log did?"""

import json
from pathlib import Path
from typing import Any

from bench.judge import Workspace, check, mapping, number, string

ANSWER = "training/training_analysis.json"


def truth(ws: Workspace) -> dict[str, Any]:
    """The generator's own record: status, loss, accuracy, kind and message of the fatal error."""
    loaded: dict[str, Any] = json.loads(Path(ws.hidden("record.json")).read_text())
    return loaded


def answer(ws: Workspace) -> dict[str, Any]:
    found: dict[str, Any] = mapping(ws.json(ANSWER))
    return found


def compare_metric(ws: Workspace, name: str) -> None:
    value = number(mapping(answer(ws).get("final_metrics")).get(name))
    expected = truth(ws)[name]
    assert abs(value - expected) < 5e-7, f"{name} is {value:.6f}, the last successful epoch had {expected:.6f}"


@check(weight=2)
def answer_has_the_form(ws: Workspace) -> None:
    """The JSON object has the three keys, the two metrics and values of the right types."""
    found = answer(ws)
    expected = {"status", "final_metrics", "error_message"}
    assert set(found) == expected, f"keys are {sorted(found)[:6]}, expected {sorted(expected)}"
    assert found["status"] in ("failed", "success"), f"status is {str(found['status'])[:40]!r}"
    metrics = mapping(found["final_metrics"])
    assert set(metrics) == {"accuracy", "loss"}, f"final_metrics has the keys {sorted(metrics)[:6]}"
    for name, value in metrics.items():
        assert value is None or number(value) is not None, f"{name} is neither a number nor null"
    string(found["error_message"])


@check(weight=3, required=True)
def status_is_right(ws: Workspace) -> None:
    """The run is called failed or successful as it was."""
    status, expected = string(answer(ws).get("status")), truth(ws)["status"]
    assert status == expected, f"status is {status[:40]!r}, the run was a case of {expected!r}"


@check(weight=5, required=True)
def loss_is_right(ws: Workspace) -> None:
    """The loss is the training loss of the last successful epoch."""
    compare_metric(ws, "loss")


@check(weight=5, required=True)
def accuracy_is_right(ws: Workspace) -> None:
    """The accuracy is the training accuracy of the last successful epoch."""
    compare_metric(ws, "accuracy")


@check(weight=4, required=True)
def error_is_the_fatal_one(ws: Workspace) -> None:
    """The message is that of the error which ended the run, or from which it last recovered, alone and whole."""
    # White space around it, such as the end of its line, is no part of a message.
    text, expected = string(answer(ws).get("error_message")).strip(), truth(ws)
    accepted = {expected["message"], f"{expected['kind']}: {expected['message']}"}
    assert text in accepted, f"error_message is {text[:160]!r}, expected {expected['message']!r}"
