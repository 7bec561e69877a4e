"""A gateway that broke: whether what its cell sent has broken it, and what the cell had used until then.

A request that our code does not survive is something an agent can send again at will, so that the end of a gateway is
no evidence of a fault of the machine. What decides is a fresh gateway that is asked for something known to be good.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.base.errors import InfraError, UserError
from bench.formats.model_usage import ModelUsage, Tokens
from bench.gateway.backends.scripted import ANSWERS
from bench.gateway.budget import CellLimits
from bench.gateway.call_log import CallLine, read_trace
from bench.gateway.launch import GatewaySpec, open_gateway

_ANSWER_S = 60.0
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
"""Ends that no request brings about: the gateway's memory is bounded, so that the kernel does not end it for that."""


def broken_by_cell(status: int | None, sockets: Path) -> bool:
    """Whether a gateway that ended with `status` (None: it does not answer) was broken by what its cell sent.

    sockets: a folder with a short name.
    """
    return status not in _FROM_OUTSIDE and _fresh_one_answers(sockets)


def _fresh_one_answers(sockets: Path) -> bool:
    with TemporaryDirectory(prefix="control-", dir=sockets) as name:
        folder = Path(name)
        spec = GatewaySpec(
            socket=folder / "g.sock",
            ledger=folder / "calls.jsonl",
            models={"main": ANSWERS},
            case="control",
            cassettes=None,
            limits=CellLimits(deadline=time.monotonic() + _ANSWER_S),
        )
        try:
            with open_gateway(spec) as gateway:
                return _ask(spec.socket, gateway.key, gateway.alias("main")) == 200
        except (InfraError, UserError, OSError, http.client.HTTPException):
            return False


def _ask(address: Path, key: str, model: str) -> int:
    """The status of the smallest chat."""
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    connection = http.client.HTTPConnection("gateway")
    with socket.socket(socket.AF_UNIX) as connected:
        connected.settimeout(_ANSWER_S)
        connected.connect(str(address))
        connection.sock = connected
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": f"Bearer {key}"})
        return connection.getresponse().status


def usage_so_far(last: Iterable[ModelUsage], ledger: Path) -> list[ModelUsage]:
    """The usage that a gateway told last, and beyond it what it wrote down before it broke, as an estimate."""
    lines = [traced.line for traced in read_trace(ledger)] if ledger.is_file() else []
    return [_more(it, [line for line in lines if line.role == it.role and line.status != "probe"]) for it in last]


def _more(told: ModelUsage, lines: list[CallLine]) -> ModelUsage:
    ended = Counter(line.status for line in lines)
    failed = ended["failed"] + ended["abandoned"]
    cost = sum(line.cost_usd or 0.0 for line in lines)
    status = "estimated" if told.cost_status in ("none", "exact") else told.cost_status
    return told.model_copy(
        update={
            "calls": max(told.calls, sum(line.is_step for line in lines)),
            "failed_calls": max(told.failed_calls, failed),
            "refused_calls": max(told.refused_calls, ended["refused"]),
            "tokens": _larger(told.tokens, [line.tokens for line in lines if line.tokens is not None]),
            "cost_usd": None if told.cost_usd is None else round(max(told.cost_usd, cost), 10),
            "cost_status": status,
        }
    )


def _larger(told: Tokens, lines: list[Tokens]) -> Tokens:
    """Kind by kind the larger of what was told and what was written down; unknown stays unknown."""
    largest: dict[str, int | None] = {}
    for kind in Tokens.model_fields:
        known, written = getattr(told, kind), [getattr(it, kind) for it in lines]
        largest[kind] = None if None in (known, *written) else max(known, sum(written))
    return Tokens(**largest)
