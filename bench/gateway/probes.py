"""Probes are paid by the run and written into the trace; the cost and the steps of a cell are not touched."""

from __future__ import annotations

from datetime import UTC, datetime

from bench.base.errors import UserError
from bench.formats.record import Tokens
from bench.gateway.answers import Rule, normalise
from bench.gateway.backends.probe import PROBE_TOKENS, Probed
from bench.gateway.budget import Tariff
from bench.gateway.call_log import CallLine, Ledger
from bench.gateway.config import ALIAS_PREFIX
from bench.gateway.request import Call
from bench.gateway.run_budget import RunBudget


class RunProbeAccount:
    """Probes of one role at the expense of the run."""

    def __init__(self, role: str, tariff: Tariff, run_budget: RunBudget | None, ledger: Ledger) -> None:
        self._role = role
        self._tariff = tariff
        self._run_budget = run_budget
        self._ledger = ledger
        prices = tariff.prices
        self._worst = prices.worst(PROBE_TOKENS, PROBE_TOKENS) if prices else 0.0

    def hold(self) -> bool:
        """Set a probe's worst case aside in the run's budget; False: it does not fit."""
        if self._run_budget is None:
            return True
        try:
            return self._run_budget.hold(self._worst, 2 * PROBE_TOKENS, False) is None
        except UserError:
            # A damaged budget stops the next call, which tells what is wrong.
            return False

    def settle(self, probed: Probed) -> None:
        """Book what a probe used, as far as the provider says so, else its worst case; and write it down."""
        tokens = Tokens()
        known = True
        if probed.answer is not None or not probed.status:
            usage = probed.answer.usage if probed.answer else None
            found = normalise(_rule(probed.call), usage)
            known = found is not None or probed.call.dialect == "count_tokens"
            if not known:
                found = Tokens(input_uncached=PROBE_TOKENS, output=PROBE_TOKENS)
            tokens = found or tokens
        prices = self._tariff.prices
        cost = prices.cost(tokens) if prices else None
        if self._run_budget is not None:
            used = sum(it or 0 for it in (tokens.input_uncached, tokens.cache_read, tokens.cache_write, tokens.output))
            self._run_budget.settle(self._worst, 2 * PROBE_TOKENS, False, cost or 0.0, used)
        self._ledger.append(
            CallLine(
                time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), role=self._role,
                alias=f"{ALIAS_PREFIX}{self._role}", model=self._tariff.model, protocol=probed.call.dialect,
                stream=probed.call.stream, status="probe", http=probed.status, code="ok" if probed.ok else "failed",
                error="" if probed.ok else probed.said, tokens=tokens, estimated=not known, cost_usd=cost,
                seconds=probed.seconds,
            )
        )  # fmt: skip


def _rule(call: Call) -> Rule:
    rules: dict[str, Rule] = {"responses": "responses", "messages": "anthropic", "embeddings": "embeddings"}
    return rules.get(call.dialect, "openai")
