"""Whether a call fits into a limit; and the limits of a whole run, in a file that the gateways of its cells share.

What a gateway held when it was killed stays held: it may have been billed.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from bench.base.files import lock
from bench.base.model import Model, parse_json
from bench.formats.amounts import Dollars
from bench.formats.amounts import Whole as Count
from bench.formats.run_limits import RunLimits

Limit = Literal["cost_limit", "token_limit", "step_limit", "time_limit"]
Whole = Literal["cell", "run"]
# Sums of floats: a limit of ten times the price of a call must let ten calls through.
_ROUNDING = 1e-12


class LimitReached(Exception):
    """A call does not fit into what is left. `may_pass`: calls under way may give some of theirs back."""

    def __init__(self, limit: Limit, message: str, *, may_pass: bool, of: Whole = "cell") -> None:
        super().__init__(message)
        self.limit = limit
        self.may_pass = may_pass
        self.of: Whole = of


class Balance(Model):
    """What a run or a cell has used, and what its calls under way may use."""

    spent_usd: Dollars = 0.0
    held_usd: Dollars = 0.0
    tokens: Count = 0
    held_tokens: Count = 0
    calls: Count = 0
    held_calls: Count = 0


def money_left(limits: RunLimits, now: Balance) -> float:
    """US dollars that no call has used or may use."""
    limit = math.inf if limits.cost_usd is None else limits.cost_usd
    return limit - now.spent_usd - now.held_usd


def tokens_left(limits: RunLimits, now: Balance) -> float:
    """Tokens that no call has used or may use."""
    limit = math.inf if limits.tokens is None else limits.tokens
    return limit - now.tokens - now.held_tokens


def affordable(limits: RunLimits, now: Balance, cost: float, tokens: int) -> bool:
    """Whether `cost` and `tokens` fit into what is left."""
    return cost <= money_left(limits, now) + _ROUNDING and tokens <= tokens_left(limits, now)


def find_obstacle(
    whole: Whole, limits: RunLimits, now: Balance, cost: float, tokens: int, step: bool
) -> LimitReached | None:
    """The limit of the `whole` that the worst case of one more call does not fit into."""
    if limits.deadline is not None and time.monotonic() >= limits.deadline:
        return LimitReached("time_limit", f"the time of this {whole} is over", may_pass=False, of=whole)
    if limits.calls is not None and step and now.calls + now.held_calls >= limits.calls:
        message = f"all {limits.calls} model calls of this {whole} are used"
        return LimitReached("step_limit", message, may_pass=now.calls < limits.calls, of=whole)
    money = money_left(limits, now)
    if cost > money + _ROUNDING:
        left_of = f"{max(money, 0):.4f} of this {whole}'s {limits.cost_usd:g} are left"
        message = f"this call may cost {cost:.4f} US dollars, {left_of}"
        return LimitReached("cost_limit", message, may_pass=cost <= money + now.held_usd, of=whole)
    if tokens > (left := tokens_left(limits, now)):
        message = f"this call may take {tokens} tokens, {max(left, 0)} of this {whole}'s {limits.tokens} are left"
        return LimitReached("token_limit", message, may_pass=tokens <= left + now.held_tokens, of=whole)
    return None


class RunBudget:
    """One gateway's access to the run's limits; each look at them raises `UserError` when the file is damaged."""

    def __init__(self, path: Path, limits: RunLimits) -> None:
        self._path = path
        self._limits = limits

    def balance(self) -> Balance:
        with self._locked() as balance:
            return balance[0]

    def hold(self, cost: float, tokens: int, step: bool) -> LimitReached | None:
        """Set aside the worst case of one call; the refusal when it does not fit."""
        with self._locked() as cell:
            now = cell[0]
            if obstacle := find_obstacle("run", self._limits, now, cost, tokens, step):
                return obstacle
            cell[0] = now.model_copy(
                update={
                    "held_usd": now.held_usd + cost,
                    "held_tokens": now.held_tokens + tokens,
                    "held_calls": now.held_calls + step,
                }
            )
        return None

    def hold_more(self, cost: float, tokens: int) -> bool:
        """Set aside another try of a call under way."""
        with self._locked() as cell:
            now = cell[0]
            more = {"held_usd": now.held_usd + cost, "held_tokens": now.held_tokens + tokens}
            cell[0] = now.model_copy(update=more)
            return affordable(self._limits, now, cost, tokens)

    def settle(
        self, held: float, held_tokens: int, step: bool, cost: float, tokens: int,
        *, at_risk_usd: float = 0.0, tokens_at_risk: int = 0,
    ) -> None:  # fmt: skip
        """Replace what was set aside by what was used, and by what may have been billed beyond that."""
        with self._locked() as cell:
            now = cell[0]
            cell[0] = Balance(
                spent_usd=now.spent_usd + cost + at_risk_usd,
                held_usd=max(now.held_usd - held, 0.0),
                tokens=now.tokens + tokens + tokens_at_risk,
                held_tokens=max(now.held_tokens - held_tokens, 0),
                calls=now.calls + (step and tokens > 0),
                held_calls=max(now.held_calls - step, 0),
            )

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
