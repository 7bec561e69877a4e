"""What follows from the parts of a record: its cost, steps, limits hit, and what explains a failure.

A record is made with these functions, and `results collect` recomputes with the same ones what a record says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from bench.formats.case import Headline, Limits
from bench.formats.record import Claim, CostStatus, LimitsSet, Metric, ModelUsage, Note, StopReason, Try

KILLED = "agent_killed"
"""The one cause of a lost try that an agent can bring about by itself."""
LIMIT_MODES: Mapping[str, str] = MappingProxyType(
    {
        "time_limit": "out_of_time",
        "cost_limit": "out_of_budget",
        "step_limit": "out_of_budget",
        "token_limit": "out_of_budget",
        "memory_limit": "out_of_resources",
        "process_limit": "out_of_resources",
        "disk_limit": "out_of_resources",
        "output_limit": "out_of_resources",
    }
)
"""The failure mode of a cell that was stopped by a limit and did not succeed."""
_STATUSES: tuple[CostStatus, ...] = ("none", "exact", "simulated", "estimated", "unknown")
"""From the most certain cost to the least."""


def total_cost(usage: Sequence[ModelUsage]) -> tuple[float | None, CostStatus]:
    """Sum over roles: unknown as soon as one part is unknown, and as uncertain as its weakest part."""
    status: CostStatus = max((item.cost_status for item in usage), key=_STATUSES.index, default="none")
    if status == "unknown":
        return None, status
    return round(sum(item.cost_usd or 0.0 for item in usage), 8), status


def total_steps(usage: Iterable[ModelUsage]) -> int:
    """Successful model calls of all roles."""
    return sum(item.calls for item in usage)


def limits_hit(stop_reason: StopReason) -> list[str]:
    """The limits that ended the agent phase."""
    return [stop_reason] if stop_reason in LIMIT_MODES else []


def limits_of(limits: Limits, *, cost_limited: bool) -> LimitsSet:
    """The limits of a case as a record holds them; cost_limited: False for a run without a dollar limit."""
    found = LimitsSet(**limits.model_dump(include=set(LimitsSet.model_fields)))
    return found if cost_limited else found.model_copy(update={"cost_usd": None})


def overclaimed(claim: Claim) -> str:
    """The evidence of an overclaim."""
    return f"{claim.name}: claimed {claim.claimed:g}, measured {claim.measured:g}"


def no_improvement(headline: Headline | None, metrics: Iterable[Metric]) -> str:
    """That the case's metric is not better than its baseline; empty where it is, or was not measured."""
    measured = next((found.value for found in metrics if headline and found.name == headline.name), None)
    if headline is None or measured is None:
        return ""
    gain = (measured - headline.baseline) * (1 if headline.direction == "higher" else -1)
    return f"{headline.name} {measured:g} is not better than the baseline {headline.baseline:g}" if gain <= 0 else ""


def flags_of_tries(tries: Sequence[Try]) -> list[Note]:
    """An agent can kill itself for another throw of the dice: it has one at most, and that is said."""
    killed = [earlier for earlier in tries if earlier.cause == KILLED]
    return [Note(name="retried_after_kill", evidence=killed[0].message)] if killed else []
