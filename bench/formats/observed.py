"""What a record tells of an agent and counts for nothing: its own figures, and names it asked for."""

from __future__ import annotations

from pydantic import Field

from bench.base.model import Model
from bench.formats.amounts import Dollars, Whole


class SelfReported(Model):
    """What the agent's own program says it used. Never counted: it stands beside what the gateway has metered."""

    input_tokens: Whole | None = None
    """Cached ones included."""
    cached_tokens: Whole | None = None
    output_tokens: Whole | None = None
    """Reasoning included."""
    calls: Whole | None = None
    cost_usd: Dollars | None = None


class NameQuery(Model):
    """A name that the agent asked a name server for; there is none, so it was told that there is no such name."""

    name: str = Field(max_length=200)
    """Empty: the sandbox could only count."""
    queries: Whole
    expected: bool = False
    """agent.yaml says that the agent's program asks for it."""
