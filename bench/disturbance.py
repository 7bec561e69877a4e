"""What disturbed a try from outside: its verdict would say nothing about the agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.agentphase import AgentPhase
from bench.cell import Cell, RunContext
from bench.clock import TimeOfDay
from bench.errors import InfraError
from bench.record import Try

_STEADY_S = 5.0
"""Corrections of the clock below this harm no deadline."""
_KILLED = 137


def require_calm(phase: AgentPhase, day: TimeOfDay, tries: Sequence[Try]) -> None:
    """Raise `InfraError` when the agent phase was disturbed."""
    if abs(day.jumped_s) > _STEADY_S:
        # The agent was told its deadline as a time of day.
        raise InfraError("clock_jump", f"the machine's clock was set by {day.jumped_s:+.0f} s while the agent worked")
    killed = phase.ended.reason == "exit" and phase.ended.code == _KILLED and phase.stop_reason == "crashed"
    # Nobody can tell who sent the signal: once the machine has the benefit of the doubt, but only once, or an agent
    # could have as many tries as it likes.
    if killed and not any(earlier.cause == "agent_killed" for earlier in tries):
        raise InfraError("agent_killed", "the agent's process was killed (status 137), and by no limit of the case")


def require_same_files(cell: Cell, context: RunContext) -> None:
    """Raise `InfraError` when case or agent are not what they were when the run began."""
    if replace(cell.case).digest != cell.case.digest:
        raise InfraError("setup_error", f"{cell.case.folder}: the case has changed since the run began")
    expected = context.agent_digests.get(cell.agent.id)
    # Without isolation an agent may write to its own folder.
    if expected and context.sandbox.isolated and replace(cell.agent).digest != expected:
        raise InfraError("setup_error", f"{cell.agent.folder}: the agent has changed since the run began")
