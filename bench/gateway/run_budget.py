"""The limits of a whole run, kept in a file that the gateways of all its cells share.

What a gateway held when it was killed stays held: it may have been billed.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.base.files import lock
from bench.base.model import Model, parse_json
from bench.formats.plan import RunLimits
from bench.formats.record import Dollars, Whole

_ROUNDING = 1e-12


class Balance(Model):
    """What the run has used, and what calls under way may use."""

    spent_usd: Dollars = 0.0
    held_usd: Dollars = 0.0
    tokens: Whole = 0
    held_tokens: Whole = 0
    calls: Whole = 0
    held_calls: Whole = 0


@dataclass(frozen=True)
class Refusal:
    limit: Literal["cost_limit", "token_limit", "step_limit", "time_limit"]
    message: str
    may_pass: bool
    """Calls under way may give some of theirs back."""


class RunBudget:
    """One gateway's access to the run's limits; each look at them raises `UserError` when the file is damaged."""

    def __init__(self, path: Path, limits: RunLimits) -> None:
        self._path = path
        self._limits = limits

    def balance(self) -> Balance:
        with self._locked() as balance:
            return balance[0]

    def hold(self, cost: float, tokens: int, step: bool) -> Refusal | None:
        """Set aside the worst case of one call; the refusal when it does not fit."""
        with self._locked() as cell:
            now = cell[0]
            if refusal := self._refusal(now, cost, tokens, step):
                return refusal
            cell[0] = now.model_copy(
                update={
                    "held_usd": now.held_usd + cost,
                    "held_tokens": now.held_tokens + tokens,
                    "held_calls": now.held_calls + step,
                }
            )
        return None

    def hold_more(self, cost: float) -> bool:
        """Set aside another try of a call under way."""
        with self._locked() as cell:
            now = cell[0]
            cell[0] = now.model_copy(update={"held_usd": now.held_usd + cost})
            return self._left(now) >= cost - _ROUNDING

    def settle(self, held: float, held_tokens: int, step: bool, cost: float, tokens: int) -> None:
        """Replace what was set aside by what was used."""
        with self._locked() as cell:
            now = cell[0]
            cell[0] = Balance(
                spent_usd=now.spent_usd + cost,
                held_usd=max(now.held_usd - held, 0.0),
                tokens=now.tokens + tokens,
                held_tokens=max(now.held_tokens - held_tokens, 0),
                calls=now.calls + (step and tokens > 0),
                held_calls=max(now.held_calls - step, 0),
            )

    def _refusal(self, now: Balance, cost: float, tokens: int, step: bool) -> Refusal | None:
        limits = self._limits
        if limits.deadline is not None and time.monotonic() >= limits.deadline:
            return Refusal("time_limit", "the time of this run is over", may_pass=False)
        if limits.calls is not None and step and now.calls + now.held_calls >= limits.calls:
            message = f"all {limits.calls} model calls of this run are used"
            return Refusal("step_limit", message, may_pass=now.calls < limits.calls)
        left = self._left(now)
        if cost > left + _ROUNDING:
            message = f"this call may cost {cost:.4f} US dollars, {max(left, 0):.4f} of the run's limit are left"
            return Refusal("cost_limit", message, may_pass=cost <= left + now.held_usd)
        if limits.tokens is not None and now.tokens + now.held_tokens + tokens > limits.tokens:
            message = f"this call may take {tokens} tokens, more than this run has left"
            return Refusal("token_limit", message, may_pass=now.tokens + tokens <= limits.tokens)
        return None

    def _left(self, now: Balance) -> float:
        limit = math.inf if self._limits.cost_usd is None else self._limits.cost_usd
        return limit - now.spent_usd - now.held_usd

    @contextlib.contextmanager
    def _locked(self) -> Iterator[list[Balance]]:
        """The balance in a list of one, whose content is written back."""
        with lock(self._path) as file:
            data = os.pread(file, 4096, 0)
            # Empty when this is the first gateway of the run.
            data = data.strip() or b"{}"
            before = parse_json(data, Balance, where=self._path, remedy="start a new run")
            cell = [before]
            yield cell
            if cell[0] is not before:
                # Of one length, so that a shorter balance leaves no rest of a longer one.
                os.pwrite(file, cell[0].model_dump_json().encode().ljust(400) + b"\n", 0)
