"""The gateway's process: `python -m bench.gateway.process`, told what to do on standard input, which is its lifeline.

The first line is the configuration. Each further line is answered with the state. At the end of the input, which
comes with the end of the runner, however that ends, the keys die and the last state is told.
"""

from __future__ import annotations

import asyncio
import gc
import math
import sys
from pathlib import Path
from typing import BinaryIO

from bench.base.child import private_answers
from bench.base.errors import UserError
from bench.base.model import parse_json
from bench.gateway.backends import Backend
from bench.gateway.backends.recorded import Recorder, load_exchanges
from bench.gateway.backends.replay import ExchangeBackend, TurnBackend, cassette_name, is_recorded, load_cassette
from bench.gateway.budget import Bounds, CellBudget, Tariff
from bench.gateway.call_log import Ledger
from bench.gateway.calls import CallHandler, Rules
from bench.gateway.config import Config, Role, State
from bench.gateway.http_server import Endpoint
from bench.gateway.observations import Redactor
from bench.gateway.run_budget import RunBudget

_LONGEST_ORDERS = 10_000_000


def main() -> None:
    told = private_answers(buffering=0)
    try:
        config = read_orders(sys.stdin.buffer.readline(_LONGEST_ORDERS))
        asyncio.run(_serve(config, told))
    except UserError as error:
        sys.exit(str(error))


def read_orders(line: bytes) -> Config:
    """The configuration in the runner's first line; raises `UserError`."""
    return parse_json(line, Config, where="orders of the gateway")


async def _serve(config: Config, told: BinaryIO) -> None:
    redactor = Redactor([*config.secrets, *config.keys])
    purse = RunBudget(config.purse.path, config.purse.limits) if config.purse else None
    if purse is not None:
        purse.balance()
    sources = {role: _source(config, role, redactor) for role in config.roles}
    recorders = {
        role: Recorder(config.record / cassette_name(config.case, role), facts.model, facts.prices, redactor.strict)
        for role, facts in config.roles.items()
        if config.record is not None
    }
    meter = CellBudget(
        {role: Tariff(it.model, it.prices, it.simulated) for role, it in config.roles.items()}, _bounds(config), purse
    )
    run_limited = config.purse is not None and config.purse.limits.any_set
    limited = config.max_cost_usd is not None or config.max_tokens is not None or run_limited
    rules = Rules(config.hosted_tools, limited, config.grace_s, config.record)
    gate = CallHandler(sources, meter, Ledger(config.ledger, redactor.known), rules, recorders)
    endpoint = Endpoint(config.socket, gate, config.keys)
    await endpoint.start()
    # What is alive now lives to the end: looking at it again and again would only make calls late.
    gc.collect()
    gc.freeze()
    _tell(told, gate.state().model_copy(update={"kind": "ready"}))
    await _obey(gate, told)
    await endpoint.stop()
    await gate.close()
    _tell(told, gate.state())


async def _obey(gate: CallHandler, told: BinaryIO) -> None:
    """Answer the runner until it closes our standard input."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    while await reader.readline():
        _tell(told, gate.state())
    transport.close()


def _tell(told: BinaryIO, state: State) -> None:
    data = state.model_dump_json().encode() + b"\n"
    try:
        while data:
            data = data[told.write(data) :]
    except BrokenPipeError:
        # The runner is gone; there is nobody left to tell.
        return


def _bounds(config: Config) -> Bounds:
    def limit(value: float | None) -> float:
        return math.inf if value is None else value

    return Bounds(limit(config.max_calls), limit(config.max_cost_usd), limit(config.max_tokens), config.deadline)


def _source(config: Config, role: str, redactor: Redactor) -> Backend:
    facts = config.roles[role]
    if facts.cassette is not None:
        return _replaying(facts, facts.cassette, redactor)
    from bench.gateway.backends.litellm import NativeOrLitellm
    from bench.gateway.backends.live import LiveBackend, NativeTransport

    provider = facts.provider
    native = NativeTransport(provider, config.patience.connect_s, config.hosted_tools) if provider else None
    transport = NativeOrLitellm(facts.model, native, provider.dialects if provider else (), facts.litellm)
    return LiveBackend(facts.name, transport, config.patience, config.deadline, redactor.known)


def _replaying(facts: Role, path: Path, redactor: Redactor) -> Backend:
    if is_recorded(path):
        heading, played = load_exchanges(path)
        gemini = "gemini" if heading.model.startswith("gemini/") else ""
        return ExchangeBackend(facts.name, played, path, redactor.strict, gemini)
    return TurnBackend(load_cassette(path), path)


if __name__ == "__main__":
    main()
