"""Limits and totals of one cell: every call reserves its worst case before it is sent."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Literal

from bench.gateway.prices import Prices
from bench.record import CostStatus, ModelUsage, Tokens

Limit = Literal["cost_limit", "step_limit", "time_limit"]
_ROUNDING = 1e-12
_LONGEST_WAIT_S = 60.0


class LimitReached(Exception):
    """The call does not fit into what is left."""

    def __init__(self, limit: Limit, message: str) -> None:
        super().__init__(message)
        self.limit = limit


@dataclass(frozen=True)
class Tariff:
    """How the calls of one role are priced."""

    model: str
    prices: Prices | None
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
    estimated: bool = False
    tokens: Tokens = field(default_factory=Tokens)

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
        )

    def _status(self) -> CostStatus:
        if not self.calls and not self.estimated:
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
    lost: int = 0
    """Earlier tries that may have been billed although their answer never came."""

    @property
    def held(self) -> float:
        return self.each * (self.lost + 1)


class Meter:
    """Limits of one cell over all its roles. Safe to use from several threads."""

    def __init__(self, tariffs: dict[str, Tariff], max_calls: int, max_cost_usd: float, deadline: float) -> None:
        self._accounts = {role: Account(role, tariff) for role, tariff in tariffs.items()}
        self._max_calls = max_calls
        self._max_cost = max_cost_usd
        self._deadline = deadline
        self._open: list[Reservation] = []
        self._changed = threading.Condition()
        self._closed = False
        self.limit_hit: Limit | None = None

    def usage(self) -> list[ModelUsage]:
        with self._changed:
            return [account.usage() for account in self._accounts.values()]

    def reserve(self, role: str, input_tokens: int, output_tokens: int) -> Reservation:
        """Room for one call, or `LimitReached`. Waits while calls under way may still give some of theirs back."""
        account = self._accounts[role]
        prices = account.tariff.prices
        wanted = Reservation(account, prices.worst(input_tokens, output_tokens) if prices else 0.0)
        with self._changed:
            while (reached := self._obstacle(wanted.each, new=True)) and self._open and reached.limit != "time_limit":
                self._changed.wait(self._patience())
            if reached:
                account.refused += not self._closed
                self._note(reached.limit)
                raise reached
            self._open.append(wanted)
        return wanted

    def lose(self, reservation: Reservation) -> bool:
        """The answer of a try was lost and may be billed all the same; False when another try does not fit."""
        with self._changed:
            reservation.lost += 1
            return reservation in self._open and self._obstacle(0.0, new=False) is None

    def settle(self, reservation: Reservation, tokens: Tokens | None, retries: int) -> float | None:
        """Replace the reservation by what the call did cost; unknown tokens cost the worst case. None: unpriced."""
        with self._changed:
            account = reservation.account
            if not self._release(reservation):
                return None
            account.calls += 1
            account.retries += retries
            account.estimated |= tokens is None or reservation.lost > 0
            account.tokens = _add(account.tokens, tokens)
            prices = account.tariff.prices
            if prices is None:
                return None
            last = reservation.each if tokens is None else prices.cost(tokens)
            cost = last + reservation.each * reservation.lost
            account.cost += cost
            return cost

    def fail(self, reservation: Reservation, retries: int) -> None:
        """The call brought no answer. Only tries that may be billed are charged."""
        with self._changed:
            if self._release(reservation):
                account = reservation.account
                account.failed += 1
                account.retries += retries
                self._charge_lost(reservation, reservation.lost)

    def hit(self, limit: Limit) -> None:
        """A call under way ran into `limit`."""
        with self._changed:
            self._note(limit)

    def close(self) -> list[str]:
        """Let nothing more through; charge calls still under way with their worst case and return their roles."""
        with self._changed:
            self._closed = True
            abandoned, self._open = self._open, []
            for reservation in abandoned:
                reservation.account.failed += 1
                self._charge_lost(reservation, reservation.lost + 1)
            self._changed.notify_all()
            return [reservation.account.role for reservation in abandoned]

    def _obstacle(self, cost: float, *, new: bool) -> LimitReached | None:
        if self._closed or time.time() >= self._deadline:
            return LimitReached("time_limit", "the time of this cell is over")
        calls = sum(account.calls for account in self._accounts.values()) + len(self._open)
        if new and calls >= self._max_calls:
            return LimitReached("step_limit", f"all {self._max_calls} model calls are used")
        spent = math.fsum(account.cost for account in self._accounts.values())
        held = math.fsum(reservation.held for reservation in self._open)
        if spent + held + cost > self._max_cost + _ROUNDING:
            left = max(self._max_cost - spent - held, 0.0)
            return LimitReached(
                "cost_limit", f"this call may cost {cost:.4f} US dollars, {left:.4f} of {self._max_cost:g} are left"
            )
        return None

    def _note(self, limit: Limit) -> None:
        if not self._closed:
            self.limit_hit = self.limit_hit or limit

    def _patience(self) -> float | None:
        return min(max(self._deadline - time.time(), 0.0) + 0.01, _LONGEST_WAIT_S)

    def _release(self, reservation: Reservation) -> bool:
        if reservation not in self._open:
            return False
        self._open.remove(reservation)
        self._changed.notify_all()
        return True

    @staticmethod
    def _charge_lost(reservation: Reservation, tries: int) -> None:
        if tries:
            reservation.account.estimated = True
            reservation.account.cost += reservation.each * tries


def _add(total: Tokens, more: Tokens | None) -> Tokens:
    """The sum, in which an unknown count makes the total unknown."""

    def plus(one: int | None, other: int | None) -> int | None:
        return None if one is None or other is None else one + other

    if more is None:
        return Tokens(input_uncached=None, cache_read=None, cache_write=None, output=None, reasoning=None)
    return Tokens(
        input_uncached=plus(total.input_uncached, more.input_uncached),
        cache_read=plus(total.cache_read, more.cache_read),
        cache_write=plus(total.cache_write, more.cache_write),
        output=plus(total.output, more.output),
        reasoning=plus(total.reasoning, more.reasoning),
    )
