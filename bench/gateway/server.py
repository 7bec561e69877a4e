"""The way in: `open_gateway` makes the gateway of one cell and takes it down again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.errors import UserError
from bench.gateway import live, replay
from bench.gateway.backend import Backend
from bench.gateway.endpoint import Endpoint, check_socket_path
from bench.gateway.gate import Gateway
from bench.gateway.ledger import Ledger
from bench.gateway.meter import Meter
from bench.gateway.prices import check_price_limit

__all__ = ["Gateway", "GatewaySpec", "open_gateway"]


@dataclass(frozen=True)
class GatewaySpec:
    """What one cell may call, and how much of it."""

    socket: Path
    """Unix socket to listen on."""
    ledger: Path
    """calls.jsonl: appended per call, before the response is sent."""
    models: dict[str, str]
    """Role -> model, such as `replay/demo` or `openai/gpt-4o-mini`."""
    case: str
    """Names the cassette."""
    cassettes: Path | None
    """The agent's folder `cassettes`."""
    max_calls: int
    """Successful calls, over all roles."""
    max_cost_usd: float
    """Over all roles; infinity is no limit."""
    deadline: float
    """Unix seconds."""


@contextmanager
def open_gateway(spec: GatewaySpec) -> Iterator[Gateway]:
    """A listening gateway, or `UserError` when a model cannot be served. After it the key is dead, totals are final."""
    check_socket_path(spec.socket)
    with ExitStack() as stack:
        backends: dict[str, Backend] = {}
        for role, model in spec.models.items():
            backends[role] = _backend(spec, role, model)
            stack.callback(backends[role].close)
            check_price_limit(model, backends[role].tariff.prices, spec.max_cost_usd)
        tariffs = {role: backend.tariff for role, backend in backends.items()}
        meter = Meter(tariffs, spec.max_calls, spec.max_cost_usd, spec.deadline)
        gateway = Gateway(backends, meter, Ledger(spec.ledger))
        stack.callback(gateway.close)
        endpoint = Endpoint(spec.socket, gateway)
        stack.callback(endpoint.stop)
        endpoint.start()
        yield gateway


def _backend(spec: GatewaySpec, role: str, model: str) -> Backend:
    if model.startswith(replay.PREFIX):
        return replay.ReplayBackend(model, replay.cassette_path(model, role, spec.case, spec.cassettes))
    if model.startswith(live.PREFIX):
        return live.live_backend(model, spec.deadline)
    raise UserError(
        f"model {model!r}: this version serves {replay.PREFIX}<set> and {live.PREFIX}<name>",
        remedy="for another provider, name its OpenAI-compatible address in OPENAI_BASE_URL and ask for openai/<name>",
    )
