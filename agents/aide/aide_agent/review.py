"""The verdict on a run: the function that the feedback model has to call, and the reading of what it sends."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from .journal import Node
from .shared.chat_model import Answer, Json

REVIEW: Json = {
    "name": "submit_review",
    "description": "Hand in the verdict on the run of the program.",
    "parameters": {
        "type": "object",
        "properties": {
            "is_bug": {
                "type": "boolean",
                "description": "True when the run failed, or its output shows that the program is wrong somewhere.",
            },
            "summary": {
                "type": "string",
                "description": "With a bug: how to mend it. Otherwise two or three sentences on what was found.",
            },
            "metric": {
                "type": ["number", "null"],
                "description": "The measure on held-out data, or the share of requirements met, as the output shows it;"
                " null when the run failed or shows none.",
            },
            "lower_is_better": {
                "type": "boolean",
                "description": "True when a smaller metric is the better one, as for an error; false as for accuracy.",
            },
        },
        "required": ["is_bug", "summary", "metric", "lower_is_better"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True)
class Verdict:
    is_bug: bool
    summary: str
    metric: float | None
    lower_is_better: bool | None


def read_verdict(answer: Answer) -> Verdict | None:
    """The arguments of the call, or of a JSON object in the text where the model cannot call; None: neither."""
    found = re.search(r"\{.*\}", answer.text, re.S)
    text = answer.arguments if answer.arguments is not None else found[0] if found else ""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not isinstance(said.get("is_bug"), bool):
        return None
    lower, summary = said.get("lower_is_better"), said.get("summary")
    return Verdict(
        is_bug=said["is_bug"],
        summary=summary.strip() if isinstance(summary, str) else "",
        metric=_number(said.get("metric")),
        lower_is_better=lower if isinstance(lower, bool) else None,
    )


def apply(verdict: Verdict | None, node: Node) -> None:
    """Write the verdict into the node. Whatever the model says, a run that did not end with status 0 is a failure."""
    node.reviewed = True
    if verdict is not None:
        node.analysis = verdict.summary
        node.metric = verdict.metric
        node.lower_is_better = verdict.lower_is_better
    said_buggy = verdict is None or verdict.is_bug
    node.buggy = said_buggy or node.status != 0 or node.metric is None or bool(node.fault)
    if node.buggy:
        node.metric = None


def _number(value: object) -> float | None:
    """A finite number, written as an integer, a fraction or a text; anything else is no metric."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
