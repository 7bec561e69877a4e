"""What happens to one authenticated call: alias, policy, limits, backend, call log; and what is known afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from bench.base.errors import UserError
from bench.formats.model_usage import Tokens
from bench.formats.names import Instant
from bench.gateway.answers import Answer
from bench.gateway.backends import Backend, BackendError, CallHistory, Response
from bench.gateway.backends.recorded import Recorder
from bench.gateway.budget import CellBudget, Reservation
from bench.gateway.call_log import CallLine, Ledger, clean
from bench.gateway.config import State
from bench.gateway.google import Target
from bench.gateway.media import Formula, set_media_aside
from bench.gateway.names import ModelNames, alias
from bench.gateway.observations import Observations
from bench.gateway.policy import apply_policy
from bench.gateway.request import COUNTS, Call, Dialect, RequestRefused, read_call
from bench.gateway.run_budget import LimitReached
from bench.gateway.streams import estimate, forward
from bench.gateway.usage import for_an_hour, has_fees, heard_tokens, is_priced_otherwise, normalise

DEFAULT_OUTPUT_CAP = 16_384
"""Tokens that a call may bring back when it names no cap of its own and there is a limit to keep."""
_MOST_TAKEN_OUT = 50
"""Names in a line: an agent may invent as many fields as a body holds, and a large trace is not stored."""
# Ids of answers are remembered for the life of the cell.
_LONGEST_ID = 1000


@dataclass
class _Flight:
    """A call under way."""

    call: Call
    role: str
    backend: Backend
    reservation: Reservation
    history: CallHistory
    began: Instant
    start: float = field(default_factory=time.monotonic)


class CallHandler:
    """The model calls of one cell. Belongs to one event loop."""

    def __init__(
        self,
        backends: Mapping[str, Backend],
        budget: CellBudget,
        ledger: Ledger,
        hosted_tools: bool,
        recorders: dict[str, Recorder],
        names: ModelNames,
        formulas: Mapping[str, Formula] | None = None,
    ) -> None:
        """`formulas`: by which images of a role are billed; without one they count as text."""
        self._backends = backends
        self._budget = budget
        self._ledger = ledger
        self._hosted_tools = hosted_tools
        self._recorders = recorders
        self.names = names
        self._formulas = formulas or {}
        self.observations = Observations()
        self._responses: dict[str, int] = {}
        """Ids of answers given here -> tokens that going on from them brings along."""
        self._error: str | None = None
        self._open = True

    def state(self) -> State:
        return State(
            usage=self._budget.usage(),
            notes=self.observations.as_notes(),
            limit_hit=self._budget.limit_hit,
            limit_of=self._budget.limit_of,
            error=self._error or self._ledger.fault,
            stop=(self._error or self._ledger.fault) is not None or self._budget.grace_over,
        )

    async def handle(
        self, dialect: Dialect, roles: list[str], body: bytes, headers: Mapping[str, str], target: Target | None = None
    ) -> Response:
        """The answer to the request `body` by a client that may ask for `roles`, or `RequestRefused`.

        target: what the path says in Google's protocol.
        """
        call = read_call(dialect, body, headers, target)
        role = self._role(call, roles)
        if fault := self._error or self._ledger.fault:
            raise _gateway_fault(fault)
        apply_policy(call, self._hosted_tools)
        self.observations.stripped(call.stripped)
        self._price_media(call, role)
        self._go_on(call)
        cap = self._cap(call, role)
        flight = await self._take_off(call, role, cap)
        try:
            forwarded = call.upstream(flight.backend.name, cap if self._budget.needs_caps else None)
            response = await flight.backend.answer(call, forwarded, flight.history)
        except BackendError as error:
            await self._failed(flight, error)
            raise
        except Exception as error:
            # Over what the agent has sent: an error that it could repeat at will must not be infrastructure's.
            broken = BackendError(500, "gateway_broken", f"the gateway failed: {type(error).__name__}", infra=False)
            await self._failed(flight, broken)
            raise broken from error
        if response.chunks is not None:
            recorder = self._recorders.get(role)
            chunks = recorder.tee(call, response.chunks) if recorder else response.chunks
            return replace(response, chunks=forward(call, chunks, partial(self._ended, flight)))
        await self._whole(flight, response)
        return response

    async def settle(self) -> None:
        """After the last call: find out whether the provider is down, where the last calls had no answer."""
        self._open = False
        for backend in self._backends.values():
            if self._error is None and (outage := await backend.outage()):
                self._error = outage

    async def close(self) -> None:
        """End what is under way and make the totals final; the ledger is complete afterwards."""
        self._open = False
        for role in self._budget.close():
            text = "still under way at the end; charged with its worst case"
            account = self._budget.account(role)
            line = CallLine(
                time=_now(), role=role, alias=alias(role), model=account.tariff.model, status="abandoned",
                http=0, error=text, estimated=True,
            )  # fmt: skip
            self._ledger.append(line)
        self._ledger.close()
        for recorder in self._recorders.values():
            recorder.close()
        for backend in self._backends.values():
            await backend.close()

    def _role(self, call: Call, roles: list[str]) -> str:
        if role := self.names.role(call.model, roles):
            return role
        shown = self.observations.wrong_model(call.model)
        known = ", ".join(self.names.listed(roles)) or "none"
        raise RequestRefused(404, "model_not_found", f"no model {shown!r} in this run; the models are: {known}")

    def _price_media(self, call: Call, role: str) -> None:
        if call.dialect not in COUNTS and self._budget.needs_caps and role in self._formulas:
            set_media_aside(call, self._formulas[role])

    def _go_on(self, call: Call) -> None:
        earlier = call.data.get("previous_response_id")
        if call.dialect == "responses" and earlier is not None:
            if not isinstance(earlier, str) or earlier not in self._responses:
                message = "field `previous_response_id` is not the id of an answer of this cell"
                raise RequestRefused(400, "not_allowed", message)
            call.earlier_tokens = self._responses[earlier]

    def _cap(self, call: Call, role: str) -> int:
        """The most tokens that may come back."""
        if not call.counts_as_step:
            return 0
        prices = self._budget.account(role).tariff.prices
        most = prices.max_output if prices and prices.max_output else DEFAULT_OUTPUT_CAP
        return call.output_cap or min(most, DEFAULT_OUTPUT_CAP)

    async def _take_off(self, call: Call, role: str, cap: int) -> _Flight:
        began, start = _now(), time.monotonic()
        worst = call.worst_input if call.dialect not in COUNTS else 0
        try:
            step = call.counts_as_step
            output = max(cap, call.thinking) * call.copies
            reservation = await self._budget.reserve(role, worst, output, step=step)
        except LimitReached as reached:
            refused = RequestRefused(402, "budget_exceeded", str(reached), reached.limit)
            self._refused(self._line(role, call, began, start), call, refused)
            raise refused from None
        except UserError as damaged:
            self._error = f"gateway_broken: {damaged}"
            raise _gateway_fault(damaged) from None
        history = CallHistory(lambda: self._budget.lose(reservation))
        return _Flight(call, role, self._backends[role], reservation, history, began, start)

    async def _whole(self, flight: _Flight, response: Response) -> None:
        if response.status != 200 or response.answer is None:
            await self._budget.fail(flight.reservation, flight.history.retries)
            self._land(flight, {"status": "failed", "http": response.status, "code": "upstream_refused",
                                "error": response.content[:500].decode("utf-8", "replace")})  # fmt: skip
        else:
            await self._ended(flight, response.answer)
        if recorder := self._recorders.get(flight.role):
            recorder.whole(flight.call, response.status, response.content)

    async def _ended(self, flight: _Flight, answer: Answer, fault: str = "", gone: bool = False) -> None:
        """Charge an answer that has come, as far as it has, and write it down; gone: the client did not wait for it."""
        call = flight.call
        free = call.dialect in COUNTS
        tokens = Tokens() if free else normalise(flight.backend.rule(call), answer.usage)
        told = tokens is not None and not fault
        if gone:
            flight.history.faults.append("client_gone")
        if tokens is None or not told:
            tokens = estimate(call, answer, tokens)
            flight.history.faults.append(fault or "usage_unknown")
        longer = for_an_hour(tokens, answer.usage, call.data) if call.dialect == "messages" else None
        if longer:
            tokens = longer
            flight.history.faults.append("cache_life_unknown")
        heard = 0 if free else heard_tokens(answer.usage)
        prices = flight.reservation.account.tariff.prices
        exact = told and not (heard and prices and prices.base.audio is None)
        firm = not (longer or is_priced_otherwise(answer.tier, answer.usage) or has_fees(answer.usage))
        cost = await self._budget.settle(
            flight.reservation, tokens, flight.history.retries, exact=exact, ok=not fault, heard=heard, firm=firm
        )  # fmt: skip
        if 0 < len(answer.id) <= _LONGEST_ID and call.dialect == "responses":
            # Nobody has seen how long the answer grew that the provider stores.
            written = tokens.output or 0 if told else flight.reservation.tokens - call.worst_input
            self._responses[answer.id] = call.worst_input + written
        if not fault:
            flight.backend.answered(call)
            if flight.reservation.step:
                flight.reservation.account.asked.add(clean(call.model))
        status = "failed" if fault else "ok"
        self._land(flight, {
            "status": status, "code": fault, "answered_by": clean(answer.model), "tokens": None if free else tokens,
            "estimated": not (exact and firm), "raw_usage": answer.usage, "cost_usd": cost,
            "finish_reason": clean(answer.finish_reason), "answer": answer.message or None,
        })  # fmt: skip

    async def _failed(self, flight: _Flight, error: BackendError) -> None:
        await self._budget.fail(flight.reservation, flight.history.retries)
        if error.limit:
            self._budget.hit(error.limit)
            self._count_trouble(flight)
            self._refused(self._line(flight.role, flight.call, flight.began, flight.start), flight.call, error)
            return
        if error.code == "cassette_miss":
            self.observations.cassette_miss(str(error))
        if error.infra and self._open:
            # What breaks because the cell is over is not a fault of anything.
            self._error = self._error or f"{error.code}: {error}"
        self._land(flight, {"status": "failed", "http": error.status, "code": error.code, "error": str(error)})

    def _refused(self, line: CallLine, call: Call, refused: RequestRefused) -> None:
        update = {
            "status": "refused", "http": refused.status, "code": refused.code, "error": f"{refused.limit}: {refused}",
        }  # fmt: skip
        self._ledger.append(line.model_copy(update=update), call)

    def _land(self, flight: _Flight, update: Mapping[str, object]) -> None:
        """Write down how a call ended."""
        self._count_trouble(flight)
        line = self._line(flight.role, flight.call, flight.began, flight.start)
        facts = {"retries": flight.history.retries, "faults": flight.history.faults, **update}
        self._ledger.append(line.model_copy(update=facts), flight.call)

    def _count_trouble(self, flight: _Flight) -> None:
        account = self._budget.account(flight.role)
        account.faults.update(fault for fault in flight.history.faults if fault != "client_gone")
        if flight.history.waited:
            account.waits.append(flight.history.waited)

    def _line(self, role: str, call: Call, began: Instant, start: float) -> CallLine:
        return CallLine(
            time=began, role=role, alias=call.model, model=self._budget.account(role).tariff.model,
            protocol=call.dialect, stream=call.stream, request=call.digest, status="ok", http=200,
            taken_out=_named(call.stripped + call.removed), seconds=round(time.monotonic() - start, 6),
        )  # fmt: skip


def _named(taken_out: list[str]) -> list[str]:
    more = len(taken_out) - _MOST_TAKEN_OUT
    return taken_out if more <= 0 else [*taken_out[:_MOST_TAKEN_OUT], f"and {more} more"]


def _gateway_fault(fault: object) -> RequestRefused:
    return RequestRefused(503, "gateway_fault", f"the run has ended by a fault that is not yours: {fault}")


def _now() -> Instant:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
