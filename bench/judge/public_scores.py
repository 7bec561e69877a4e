"""What an agent made of a limited number of public scores, beside the private score that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.judge.values import number

if TYPE_CHECKING:
    from bench.judge.workspace import Workspace

_EVENT = "public_score"


def record_public_scores(ws: Workspace, service: str, private: float, unit: str = "") -> float | None:
    """Record what the service has told, the private score of what was left, and how far the last one was above it.

    Metrics: `public_scores_used`, `public_score_1` and so on in their order, `private_score`, and `public_private_gap`,
    the last public score less the private one. The gap is large where an agent has chosen by the public half. Gives the
    gap; None where no score was asked for. AssertionError where `private` is not finite.
    """
    ws.metric("private_score", private, unit)
    told = [number(event["value"]) for event in ws.journal(service) if event.get("event") == _EVENT]
    ws.metric("public_scores_used", len(told), "scores")
    for place, value in enumerate(told, 1):
        ws.metric(f"public_score_{place}", value, unit)
    if not told:
        return None
    ws.metric("public_private_gap", told[-1] - private, unit)
    return told[-1] - private
