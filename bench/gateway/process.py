"""The gateway's process: `python -m bench.gateway.process`, told what to do on standard input, which is its lifeline.

The first line is the configuration. Each further line is answered with the state. At the end of the input, which
comes with the end of the runner, however that ends, the keys die and the last state is told.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO

from bench.base.child import private_answers
from bench.base.errors import UserError
from bench.base.files import sha256_bytes
from bench.base.model import parse_json
from bench.formats.model_usage import Tokens
from bench.gateway.backends import Backend
from bench.gateway.backends.probe import PROBE_TOKENS, Probe, Probed
from bench.gateway.backends.recorded import Recorder
from bench.gateway.backends.replay import ExchangeBackend, TurnBackend, cassette_name, is_recorded
from bench.gateway.backends.scripted import ScriptedBackend, is_scripted
from bench.gateway.backends.traffic import LastAnswer, Traffic
from bench.gateway.budget import CellBudget, Tariff
from bench.gateway.call_log import CallLine, Ledger
from bench.gateway.calls import CallHandler
from bench.gateway.config import SETTLE, Config, State
from bench.gateway.http_server import Endpoint
from bench.gateway.media import Formula
from bench.gateway.names import alias
from bench.gateway.observations import Redactor
from bench.gateway.request import COUNTS, Call
from bench.gateway.run_budget import RunBudget
from bench.gateway.usage import Rule, normalise

_LONGEST_ORDERS = 10_000_000
_MEMORY = 2 << 30
_LOOK_S = 0.1
_SIGN_S = 2.0


def main() -> None:
    told = private_answers(buffering=0)
    # Beyond it one request fails. Without it the kernel would end this process, or another one.
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
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
    run_budget = RunBudget(config.run_budget.path, config.run_budget.limits) if config.run_budget else None
    if run_budget is not None:
        # A damaged file is told before the agent starts.
        run_budget.balance()
    ledger = Ledger(config.ledger, redactor.known)
    traffic = Traffic()
    backends = {role: _backend(config, role, redactor, _Paid(ledger, run_budget, traffic)) for role in config.roles}
    recorders = {
        role: Recorder(
            config.record / cassette_name(config.case, role), facts.model, facts.prices, redactor.strict, config.seed
        )
        for role, facts in config.roles.items()
        if config.record is not None
    }
    budget = CellBudget(config.roles, config.limits, run_budget)
    # What a cassette answers is billed by no provider.
    formulas = {
        role: Formula(
            it.family,
            it.model,
            it.prices.max_input if it.prices else 0,
            tuple(it.provider.dialects if it.provider else ()),
        )
        for role, it in config.roles.items()
        if not it.simulated
    }
    calls = CallHandler(backends, budget, ledger, config.hosted_tools, recorders, config.names, formulas)
    endpoint = Endpoint(config.socket, calls, config.keys)
    await endpoint.start()
    # What is alive now lives to the end: looking at it again and again would only make calls late.
    gc.collect()
    gc.freeze()
    _tell(told, calls.state().model_copy(update={"kind": "ready"}))
    await _obey(endpoint, calls, told)
    await endpoint.stop()
    await calls.close()
    _tell(told, calls.state())


async def _obey(endpoint: Endpoint, calls: CallHandler, told: BinaryIO) -> None:
    """Answer the runner until it closes our standard input."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    while line := await reader.readline():
        if line.strip() == SETTLE:
            await endpoint.stop()
            await _unless_ended(calls.settle(), reader, partial(_tell, told, State(kind="busy")))
        _tell(told, calls.state())
    transport.close()


async def _unless_ended(
    work: Coroutine[None, None, None], reader: asyncio.StreamReader, still_here: Callable[[], None]
) -> None:
    """Do `work`, unless the runner goes meanwhile: then it is of use to no other process."""
    working = asyncio.ensure_future(work)
    told = time.monotonic()
    while not working.done() and not reader.at_eof():
        await asyncio.wait({working}, timeout=_LOOK_S)
        if time.monotonic() > told + _SIGN_S:
            told = time.monotonic()
            still_here()
    if not working.done():
        working.cancel()
    await asyncio.wait({working})
    if not working.cancelled():
        working.result()


def _tell(told: BinaryIO, state: State) -> None:
    data = state.model_dump_json().encode() + b"\n"
    try:
        while data:
            data = data[told.write(data) :]
    except BrokenPipeError:
        # The runner is gone, and the state is of use to no other process.
        return


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
            known = found is not None or probed.call.dialect in COUNTS
            if not known:
                found = Tokens(input_uncached=PROBE_TOKENS, output=PROBE_TOKENS)
            tokens = found or tokens
        prices = self._tariff.prices
        cost = prices.cost(tokens) if prices else None
        if self._run_budget is not None:
            self._run_budget.settle(self._worst, 2 * PROBE_TOKENS, False, cost or 0.0, tokens.total)
        self._ledger.append(
            CallLine(
                time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), role=self._role,
                alias=alias(self._role), model=self._tariff.model, protocol=probed.call.dialect,
                stream=probed.call.stream, status="probe", http=probed.status, code="ok" if probed.ok else "failed",
                error="" if probed.ok else probed.said, tokens=tokens, estimated=not known, cost_usd=cost,
                seconds=probed.seconds,
            )
        )  # fmt: skip


def _rule(call: Call) -> Rule:
    rules: dict[str, Rule] = {"responses": "responses", "messages": "anthropic", "embeddings": "embeddings",
                              "generate": "google"}  # fmt: skip
    return rules.get(call.dialect, "openai")


@dataclass(frozen=True)
class _Paid:
    """What the probes of all roles have in common."""

    ledger: Ledger
    run_budget: RunBudget | None
    traffic: Traffic


def _backend(config: Config, role: str, redactor: Redactor, paid: _Paid) -> Backend:
    facts = config.roles[role]
    if is_scripted(facts.model):
        return ScriptedBackend(facts.model)
    if facts.cassette is not None:
        path = facts.cassette
        return ExchangeBackend(path, redactor.strict) if is_recorded(path) else TurnBackend(path)
    from bench.gateway.backends.http_client import NativeTransport
    from bench.gateway.backends.litellm import NativeOrLitellm
    from bench.gateway.backends.live import LiveBackend

    provider = facts.provider
    native = NativeTransport(provider, config.patience.connect_s, config.hosted_tools) if provider else None
    transport = NativeOrLitellm(facts.model, native, provider.dialects if provider else (), facts.litellm)
    account = RunProbeAccount(role, facts, paid.run_budget, paid.ledger)
    # One file a model and address: that another model answers says nothing of this one.
    known_by = sha256_bytes(f"{facts.model} {provider.url if provider else ''}".encode())[-16:]
    last = LastAnswer(config.answered / known_by if config.answered else None)
    probe = Probe(
        facts.name, transport.dialects, transport, config.patience, account, paid.traffic, last, redactor.known,
        provider.url if provider else facts.model.partition("/")[0],
    )  # fmt: skip
    return LiveBackend(
        facts.name, transport, config.patience, config.limits.deadline, redactor.known, probe, paid.traffic
    )  # fmt: skip


if __name__ == "__main__":
    main()
