"""What a cell used of models: calls, tokens and dollars by role."""

from __future__ import annotations

from typing import Literal

from bench.base.model import Model
from bench.formats.amounts import Dollars, Seconds, Whole

CostStatus = Literal["none", "exact", "estimated", "simulated", "unknown"]
"""`none`: no call was made. `simulated`: a replayed conversation, priced as if live. `unknown`: no price is known."""


class Tokens(Model):
    """Tokens of a model, normalised; None is unknown, which is not zero."""

    input_uncached: Whole | None = 0
    cache_read: Whole | None = 0
    cache_write: Whole | None = 0
    cache_write_1h: Whole | None = 0
    """The part of `cache_write` that is kept for an hour instead of five minutes."""
    output: Whole | None = 0
    reasoning: Whole | None = 0

    @property
    def total(self) -> int:
        """What limits count: all kinds that do not contain one another; what is unknown counts as none."""
        return sum(it or 0 for it in (self.input_uncached, self.cache_read, self.cache_write, self.output))


class ModelUsage(Model):
    """What one model role cost."""

    role: str = "main"
    model: str
    """The name the run was asked to use, in litellm's spelling."""
    calls: Whole = 0
    """Successful calls. One is one step, for every agent alike."""
    failed_calls: Whole = 0
    refused_calls: Whole = 0
    retries: Whole = 0
    tokens: Tokens = Tokens()
    cost_usd: Dollars | None = 0.0
    cost_status: CostStatus = "none"
    price_version: str = ""
    asked: dict[str, Whole] = {}
    """By which names the `calls` asked for the model: its alias, its real name, a dated snapshot of it, or a name that
    agent.yaml maps to this role. Empty in an older record."""
    faults: dict[str, Whole] = {}
    """What went wrong upstream, by kind: a status such as `429`, `unreachable`, `lost`, `invalid`, `stream_broken`,
    `usage_unknown`, `cache_life_unknown`."""
    at_risk_usd: Dollars = 0.0
    """The most that may have been billed beyond `cost_usd`: for answers that never came, not to their end, or without
    usage."""
    waited_s: Seconds = 0.0
    """Time lost to tries that failed and to the waits after them: wall time that is not the agent's working time."""
