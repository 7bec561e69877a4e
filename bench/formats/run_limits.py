"""What all cells of a run may use up together."""

from __future__ import annotations

from pydantic import Field

from bench.base.model import Model


class RunLimits(Model):
    """Limits over all cells of a run; None for one that is not limited."""

    cost_usd: float | None = Field(None, ge=0, allow_inf_nan=False)
    tokens: int | None = Field(None, ge=0)
    calls: int | None = Field(None, ge=0)
    deadline: float | None = None
    """On the monotonic clock: setting the time of day does not move it."""

    @property
    def any_set(self) -> bool:
        return any(limit is not None for limit in (self.cost_usd, self.tokens, self.calls, self.deadline))
