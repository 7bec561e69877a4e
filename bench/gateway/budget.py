"""Limits and totals of one cell: every call reserves its worst case before it is sent."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.base.model import Model
from bench.formats.model_usage import CostStatus, ModelUsage, Tokens
from bench.formats.run_limits import RunLimits
from bench.gateway.names import AskedNames
from bench.gateway.prices import Prices
from bench.gateway.run_budget import Balance, Limit, LimitReached, RunBudget, Whole, affordable, find_obstacle

_LONGEST_WAIT_S = 60.0
_RUN_BUDGET_WAIT_S = 0.1


class CellLimits(RunLimits):
    """Limits of one cell over all its roles; None is no limit."""

    deadline: float
    """On the monotonic clock."""
    grace_s: float = 30.0
    """After the first refusal for a limit; then the agent is to be ended."""


class Tariff(Model):
    """How the calls of one role are priced."""

    model: str
    prices: Prices | None = None
    simulated: bool = False


@dataclass
class Account:
    """Totals of one role."""

    role: str
    tariff: Tariff
    calls: int = 0
    failed: int = 0
    refused: int = 0
    retries: int = 0
    cost: float = 0.0
    at_risk: float = 0.0
    """US dollars that may have been billed for answers which did not come, not to their end, or without usage."""
    tokens_at_risk: int = 0
    estimated: bool = False
    tokens: Tokens = field(default_factory=Tokens)
    faults: Counter[str] = field(default_factory=Counter)
    asked: AskedNames = field(default_factory=AskedNames)
    """By which names its calls were asked for."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """Stretches of time that went to failed tries and the waits after them."""

    def usage(self) -> ModelUsage:
        status = self._status()
        prices = self.tariff.prices
        return ModelUsage(
            role=self.role,
            model=self.tariff.model,
            calls=self.calls,
            failed_calls=self.failed,
            refused_calls=self.refused,
            retries=self.retries,
            tokens=self.tokens,
            cost_usd=None if status == "unknown" else round(self.cost, 10),
            cost_status=status,
            price_version=prices.version if prices else "",
            asked=dict(self.asked.counts),
            faults=dict(self.faults),
            at_risk_usd=round(self.at_risk, 10),
            waited_s=round(_length(self.waits), 3),
        )

    def _status(self) -> CostStatus:
        if not self.calls and not self.estimated and self.tokens == Tokens():
            return "none"
        if self.tariff.prices is None:
            return "unknown"
        if self.tariff.simulated:
            return "simulated"
        return "estimated" if self.estimated else "exact"


@dataclass(eq=False)
class Reservation:
    """The worst case of one call under way."""

    account: Account
    each: float
    """Worst cost of one try, in US dollars."""
    tokens: int
    """Worst count of tokens."""
    step: bool
    lost: int = 0
    """Earlier tries that may have been billed although their answer never came."""

    @property
    def reserved(self) -> float:
        return self.each * (self.lost + 1)

    @property
    def reserved_tokens(self) -> int:
        return self.tokens * (self.lost + 1)


class CellBudget:
    """Limits of one cell over all its roles. Belongs to one event loop."""

    def __init__(self, tariffs: Mapping[str, Tariff], limits: CellLimits, run_budget: RunBudget | None = None) -> None:
        self._accounts = {role: Account(role, tariff) for role, tariff in tariffs.items()}
        self._limits = limits
        self._run_budget = run_budget
        self._open: list[Reservation] = []
        self._changed = asyncio.Condition()
        self._closed = False
        self.limit_hit: Limit | None = None
        self.limit_of: Whole = "cell"
        self._limit_at = math.inf
        """Monotonic time of the first refusal."""

    @property
    def needs_caps(self) -> bool:
        """Whether there is a limit that only a bounded answer keeps."""
        return any(it is not None for it in (self._limits.cost_usd, self._limits.tokens, self._run_budget))

    @property
    def grace_over(self) -> bool:
        """Whether the agent has had its time to end by itself after the first refusal."""
        return time.monotonic() > self._limit_at + self._limits.grace_s

    def usage(self) -> list[ModelUsage]:
        return [account.usage() for account in self._accounts.values()]

    def account(self, role: str) -> Account:
        return self._accounts[role]

    async def reserve(self, role: str, input_tokens: int, output_tokens: int, *, step: bool) -> Reservation:
        """Room for one call, or `LimitReached`. Waits while calls under way may still give some of theirs back."""
        account = self._accounts[role]
        prices = account.tariff.prices
        cost = prices.worst(input_tokens, output_tokens) if prices else 0.0
        wanted = Reservation(account, cost, input_tokens + output_tokens, step)
        async with self._changed:
            while True:
                reached = self._obstacle(wanted)
                if reached is None:
                    break
                if not reached.may_pass:
                    account.refused += not self._closed
                    self.hit(reached.limit, reached.of)
                    raise reached
                await self._wait()
            self._open.append(wanted)
        return wanted

    def lose(self, reservation: Reservation) -> bool:
        """The answer of a try was lost and may be billed all the same; False when another try does not fit."""
        reservation.lost += 1
        over = time.monotonic() >= self._limits.deadline
        if over or reservation not in self._open or not affordable(self._limits, self._balance(), 0.0, 0):
            return False
        return self._run_budget is None or self._run_budget.hold_more(reservation.each, reservation.tokens)

    async def settle(
        self, reservation: Reservation, tokens: Tokens, retries: int, *,
        exact: bool, ok: bool, heard: int = 0, firm: bool = True,
    ) -> float | None:  # fmt: skip
        """Replace the reservation by what the call did cost. None: unpriced.

        exact: False where the answer did not come to its end or did not say what it used, so that the provider may
        bill more than is known: up to what was reserved, which the limits go on counting. heard: input that was sound.
        firm: False where the provider has a price of its own for how it served the call, or `tokens` may be too many.
        """
        account = reservation.account
        if not self._release(reservation):
            return None
        if ok:
            account.calls += reservation.step
        else:
            account.failed += 1
        account.retries += retries
        account.estimated |= not (exact and firm)
        account.tokens = _add(account.tokens, tokens)
        prices = account.tariff.prices
        cost = prices.cost(tokens, heard) if prices else None
        account.cost += cost or 0.0
        self._spend(reservation, cost or 0.0, tokens.total, exact=exact)
        await self._tell()
        return cost

    async def fail(self, reservation: Reservation, retries: int) -> None:
        """The call brought no answer and is not charged; tries that may be billed are at risk."""
        await self.settle(reservation, Tokens(), retries, exact=True, ok=False)

    def hit(self, limit: Limit, of: Whole = "cell") -> None:
        """A call ran into `limit`."""
        if not self._closed and self.limit_hit is None:
            self.limit_hit, self.limit_of = limit, of
            self._limit_at = time.monotonic()

    def close(self) -> list[str]:
        """Let nothing more through; charge calls still under way with their worst case and return their roles."""
        self._closed = True
        abandoned = list(self._open)
        for reservation in abandoned:
            self._release(reservation)
            account = reservation.account
            account.failed += 1
            account.estimated = True
            account.cost += reservation.each
            self._spend(reservation, reservation.each, reservation.tokens)
        return [reservation.account.role for reservation in abandoned]

    def _obstacle(self, wanted: Reservation) -> LimitReached | None:
        """What stands in the way of another call."""
        if self._closed:
            return LimitReached("time_limit", "the time of this cell is over", may_pass=False)
        if reached := find_obstacle("cell", self._limits, self._balance(), wanted.each, wanted.tokens, wanted.step):
            # Refused only when nothing is under way: the first refusal starts the agent's grace, and with it the end.
            reached.may_pass = reached.limit != "time_limit" and bool(self._open)
            return reached
        if self._run_budget is None:
            return None
        return self._run_budget.hold(wanted.each, wanted.tokens, wanted.step)

    def _balance(self) -> Balance:
        accounts = self._accounts.values()
        # Not validated: a price may be so high that no record could hold the sum, which must still refuse the call.
        return Balance.model_construct(
            spent_usd=math.fsum(it.cost + it.at_risk for it in accounts),
            held_usd=math.fsum(it.reserved for it in self._open),
            tokens=sum(it.tokens.total + it.tokens_at_risk for it in accounts),
            held_tokens=sum(it.reserved_tokens for it in self._open),
            calls=sum(it.calls for it in accounts),
            held_calls=sum(it.step for it in self._open),
        )

    async def _wait(self) -> None:
        patience = min(max(self._limits.deadline - time.monotonic(), 0.0) + 0.01, _LONGEST_WAIT_S)
        if self._run_budget is not None:
            # Another cell's gateway cannot wake this one.
            patience = min(patience, _RUN_BUDGET_WAIT_S)
        try:
            async with asyncio.timeout(patience):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _release(self, reservation: Reservation) -> bool:
        if reservation not in self._open:
            return False
        self._open.remove(reservation)
        return True

    def _spend(self, reservation: Reservation, cost: float, tokens: int, *, exact: bool = True) -> None:
        """Put at risk what may be billed beyond what is known, and tell the run's budget about the reservation."""
        risk, tokens_at_risk = reservation.each * reservation.lost, reservation.tokens * reservation.lost
        if not exact:
            risk += max(reservation.each - cost, 0.0)
            tokens_at_risk += max(reservation.tokens - tokens, 0)
        reservation.account.at_risk += risk
        reservation.account.tokens_at_risk += tokens_at_risk
        if self._run_budget is not None:
            self._run_budget.settle(
                reservation.reserved, reservation.reserved_tokens, reservation.step, cost, tokens,
                at_risk_usd=risk, tokens_at_risk=tokens_at_risk,
            )  # fmt: skip


def _add(total: Tokens, more: Tokens) -> Tokens:
    """The sum, in which an unknown count makes the total unknown."""
    names = ("input_uncached", "cache_read", "cache_write", "cache_write_1h", "output", "reasoning")
    pairs = {name: (getattr(total, name), getattr(more, name)) for name in names}
    return Tokens(**{name: None if None in pair else sum(pair) for name, pair in pairs.items()})


def _length(stretches: list[tuple[float, float]]) -> float:
    """Seconds covered by at least one of `stretches`."""
    covered, end = 0.0, -math.inf
    for start, stop in sorted(stretches):
        covered += max(stop - max(start, end), 0.0)
        end = max(end, stop)
    return covered
