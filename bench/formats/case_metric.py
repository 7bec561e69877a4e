"""The continuous metric of a case, and the two scores of an improvement.

Relative: the change against the baseline as a share of it, the measure of MLAgentBench (Huang et al. 2024, section 2),
with its bar of 10 %. It has no ceiling, and grows without reason beside a small baseline. Bounded: how far the value is
on the way from the measured baseline to the best known value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from bench.base.model import Model

_ROUNDING = 1e-12
_LARGEST = 1e100
"""Of what is put together: sums of its squares are numbers still."""
Direction = Literal["higher", "lower"]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Measured(Model):
    """How surely the baseline is known."""

    seeds: int = Field(ge=3)
    """Trials of the starter, each with data of its own."""
    baseline_se: float = Field(ge=0, allow_inf_nan=False)
    """Standard error of the mean over these trials, in the metric's unit."""


class Scale(Model):
    """What a value of a metric is held against; a record keeps it, so that it says by itself what its value means."""

    name: str
    direction: Direction
    baseline: Finite
    """What the starter reaches, or what the original took for it."""
    target: Finite
    """The best value known."""
    unit: str = ""
    bar: float | None = Field(None, gt=0, lt=1)
    """Success needs a relative change of more than this; none where the case has a bar of another kind."""

    @property
    def value_at_bar(self) -> float:
        """The value that success has to be strictly better than; the baseline where no bar is set."""
        return self.baseline + self._sign * (self.bar or 0) * abs(self.baseline)

    @property
    def _sign(self) -> int:
        return 1 if self.direction == "higher" else -1

    def is_better(self, value: float, than: float) -> bool:
        """Whether `value` is strictly better."""
        return self._sign * (value - than) > 0

    def relative(self, value: float) -> float | None:
        """The change against the baseline as a share of it, positive when better.

        None for a baseline of 0, and for a change of which no mean could be made.
        """
        if self.baseline == 0 or not math.isfinite(value):
            return None
        # No minus before nothing: the baseline itself is neither better nor worse.
        share = self._sign * (value - self.baseline) / abs(self.baseline) + 0.0
        return share if abs(share) <= _LARGEST else None

    def is_over(self, value: float, bar: float) -> bool:
        """Whether the relative change is strictly more than `bar`; never for a baseline of 0."""
        share = self.relative(value)
        # 26550 is 0.1 below 29500, and not the hair more that binary fractions may make of it.
        return share is not None and share > bar + _ROUNDING

    def bounded(self, value: float) -> float:
        """The way from baseline to target that `value` has gone, in [0, 1]; 0 for what is not a number."""
        if math.isnan(value) or self.target == self.baseline:
            return 0.0
        return min(1.0, max(0.0, (value - self.baseline) / (self.target - self.baseline)))


class Headline(Scale):
    """The continuous metric that pages show first; its baseline is the mean over `measured.seeds` trials."""

    measured: Measured | None = None
    trivial: dict[str, Finite] = {}
    """What answers reach that have learnt nothing, by a word for each; none of them is over the bar."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.bar is None:
            return self
        bar = self.value_at_bar
        if not self.is_better(self.target, bar):
            raise ValueError(f"`target` {self.target:g} is not better than the bar {bar:g}")
        for name, value in self.trivial.items():
            if self.is_better(value, bar):
                raise ValueError(f"`trivial.{name}` {value:g} is better than the bar {bar:g}")
        if self.measured and abs(bar - self.baseline) < 3 * self.measured.baseline_se:
            raise ValueError(f"the bar {bar:g} is less than 3 standard errors from the baseline {self.baseline:g}")
        return self

    @property
    def scale(self) -> Scale:
        """What a record keeps of it."""
        return Scale(**{name: getattr(self, name) for name in Scale.model_fields})


class HeadlineChange(Model):
    """What of the headline is different in a profile."""

    name: str | None = None
    direction: Direction | None = None
    baseline: Finite | None = None
    target: Finite | None = None
    unit: str | None = None
    bar: float | None = Field(None, gt=0, lt=1)
    measured: Measured | None = None
    trivial: dict[str, Finite] | None = None


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> float | None: ...


class _Guarded(Protocol):
    @property
    def guard(self) -> bool: ...
    @property
    def value(self) -> float: ...


def headline_value(name: str, metrics: Iterable[_Named], checks: Iterable[_Guarded]) -> float | None:
    """The value of the metric `name`; None where it was not measured, where a guard failed, and beyond `_LARGEST`.

    One result must not end the means and the pages of all.
    """
    if any(check.guard and check.value < 1 for check in checks):
        return None
    value = next((metric.value for metric in metrics if metric.name == name), None)
    return value if value is not None and abs(value) <= _LARGEST else None
