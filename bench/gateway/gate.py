"""What happens to one authenticated call: alias, limits, backend, ledger; and what is known afterwards."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from bench.gateway.backend import Backend, BackendError, Reply
from bench.gateway.ledger import CallLine, Ledger, clip
from bench.gateway.meter import Limit, LimitReached, Meter
from bench.gateway.protocol import ChatCall, RequestRefused, read_chat
from bench.record import Instant, ModelUsage, Note

ALIAS_PREFIX = "bench-"
_MOST_NOTES = 5


@dataclass(frozen=True)
class _Line:
    """What is known of a call before its end."""

    role: str
    alias: str
    model: str
    request: str
    time: Instant
    start: float

    def ended(self) -> CallLine:
        seconds = round(time.monotonic() - self.start, 6)
        return CallLine(
            time=self.time, role=self.role, alias=self.alias, model=self.model, request=self.request,
            seconds=seconds, status="ok", http=200,
        )  # fmt: skip


class Gateway:
    """The model calls of one cell."""

    def __init__(self, backends: Mapping[str, Backend], meter: Meter, ledger: Ledger) -> None:
        self.key = f"bench-{secrets.token_urlsafe(32)}"
        self._backends = backends
        self._meter = meter
        self._ledger = ledger
        self._lock = threading.Lock()
        self._wrong_models: dict[str, int] = {}
        self._error: str | None = None
        self._open = True

    @property
    def limit_hit(self) -> Limit | None:
        """The first limit that a call ran into."""
        return self._meter.limit_hit

    @property
    def error(self) -> str | None:
        """The first fault that is ours or the provider's; the cell cannot be judged then."""
        return self._error

    def alias(self, role: str) -> str:
        """The neutral name that the agent asks for."""
        if role not in self._backends:
            raise KeyError(role)
        return f"{ALIAS_PREFIX}{role}"

    def aliases(self) -> list[str]:
        return [self.alias(role) for role in self._backends]

    def usage(self) -> list[ModelUsage]:
        """Totals per role, in the order of the roles."""
        return self._meter.usage()

    def notes(self) -> list[Note]:
        """Findings about the agent's behaviour."""
        with self._lock:
            names = [f"{name!r} ({count} times)" for name, count in self._wrong_models.items()]
        return [Note(name="wrong_model", evidence=f"asked for {', '.join(names)}")] if names else []

    def admits(self, token: str) -> bool:
        """Whether `token` is this cell's key and still alive."""
        return self._open and secrets.compare_digest(token.encode("utf-8", "replace"), self.key.encode())

    def chat(self, body: bytes) -> dict[str, JsonValue]:
        """The completion for the request `body`, or `RequestRefused`."""
        call = read_chat(body)
        role = self._role(call)
        line = _Line(role, call.request.model, self._backends[role].tariff.model, call.digest, _now(), time.monotonic())
        if self._error is not None:
            raise RequestRefused(503, "gateway_fault", f"the run has ended by a fault that is not yours: {self._error}")
        try:
            reservation = self._meter.reserve(role, call.worst_input, call.output_cap)
        except LimitReached as reached:
            raise self._refused(line, reached.limit, str(reached)) from None
        try:
            reply = self._backends[role].complete(call, lambda: self._meter.lose(reservation))
        except BackendError as error:
            self._meter.fail(reservation, error.retries)
            raise self._failed(line, error) from None
        except BaseException as error:
            self._meter.fail(reservation, 0)
            broken = BackendError(500, "gateway_broken", f"the gateway failed: {type(error).__name__}", infra=True)
            raise self._failed(line, broken) from error
        cost = self._meter.settle(reservation, reply.tokens, reply.retries)
        self._record(line, call, reply, cost)
        return {**reply.body, "model": line.alias}

    def close(self) -> None:
        """Kill the key, end what is under way, and make the totals final."""
        self._open = False
        roles = self._meter.close()
        for role in roles:
            model = self._backends[role].tariff.model
            line = _Line(role, self.alias(role), model, "", _now(), time.monotonic()).ended()
            text = "still under way at the end; charged with its worst case"
            self._ledger.append(line.model_copy(update={"status": "abandoned", "http": 0, "error": text}))
        self._ledger.close()
        for backend in self._backends.values():
            backend.close()

    def _role(self, call: ChatCall) -> str:
        name = call.request.model
        role = name.removeprefix(ALIAS_PREFIX)
        if name.startswith(ALIAS_PREFIX) and role in self._backends:
            return role
        shown = " ".join(name.encode("ascii", "replace").decode().split())[:100]
        with self._lock:
            if shown in self._wrong_models or len(self._wrong_models) < _MOST_NOTES:
                self._wrong_models[shown] = self._wrong_models.get(shown, 0) + 1
        known = ", ".join(self.aliases()) or "none"
        raise RequestRefused(404, "model_not_found", f"no model {shown!r} in this run; the models are: {known}")

    def _refused(self, line: _Line, limit: Limit, message: str, retries: int = 0) -> RequestRefused:
        code = "budget_exceeded"
        update = {"status": "refused", "http": 402, "code": code, "error": f"{limit}: {message}", "retries": retries}
        self._ledger.append(line.ended().model_copy(update=update))
        return RequestRefused(402, code, message, limit=limit)

    def _failed(self, line: _Line, error: BackendError) -> RequestRefused:
        if error.limit:
            self._meter.hit(error.limit)
            return self._refused(line, error.limit, str(error), error.retries)
        if error.infra:
            with self._lock:
                # What breaks because the cell is over is nobody's fault.
                if self._open:
                    self._error = self._error or f"{error.code}: {error}"
        update = {
            "status": "failed", "http": error.status, "code": error.code, "error": str(error), "retries": error.retries,
        }  # fmt: skip
        self._ledger.append(line.ended().model_copy(update=update))
        return RequestRefused(error.status, error.code, str(error))

    def _record(self, line: _Line, call: ChatCall, reply: Reply, cost: float | None) -> None:
        update = {
            "answered_by": str(clip(reply.model, 200)), "tokens": reply.tokens, "cost_usd": cost,
            "retries": reply.retries, "finish_reason": str(clip(reply.finish_reason, 40)),
            "answer": clip(reply.message),
        }  # fmt: skip
        self._ledger.append(line.ended().model_copy(update=update), call.messages)


def _now() -> Instant:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
