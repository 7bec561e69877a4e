"""Carries out one try to be lost, or one outage: a real cell against a scripted provider."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.cell.run import run_cell
from bench.formats.record import Record
from bench.gateway.config import Patience
from bench.sandbox.job import Sandbox
from tests.helpers.cells import make_agent, make_case, make_cell, make_context
from tests.helpers.gateway_live import own_prices
from tests.helpers.lost_ways import PRELUDE, Script, Way
from tests.helpers.provider import CANARY, ScriptedUpstream

_TRYING = Patience(
    tries=2, first_wait_s=0.01, longest_wait_s=0.1, connect_s=10.0, answer_s=1.5, probe_s=30.0, quiet_s=0.05
)
"""A poisoned call is soon given up; a probe has time, however busy the machine."""
_ENDING = _TRYING.model_copy(update={"answer_s": 0.7, "probe_s": 1.0})
CALLER = "status, said = ask(body('hello'))\nsys.exit(0 if status == 200 else 1)\n"


def try_way(folder: Path, sandbox: Sandbox, way: Way) -> Record:
    """The record of a cell whose agent goes this way."""
    with ScriptedUpstream(way.provider) as upstream:
        return _cell(folder, sandbox, way.script, upstream.environment(), _TRYING, way.case)


def meet_outage(folder: Path, sandbox: Sandbox, outage: Script | str, script: str = CALLER) -> Record:
    """The record of a cell of a blameless agent whose provider is down."""
    with contextlib.ExitStack() as stack:
        if callable(outage):
            environment = stack.enter_context(ScriptedUpstream(outage)).environment()
        else:
            listen = _refusing if outage == "refused" else _babbling
            url = f"http://127.0.0.1:{stack.enter_context(listen())}"
            environment = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": CANARY}
        return _cell(folder, sandbox, script, environment, _ENDING, {})


def _cell(
    folder: Path, sandbox: Sandbox, script: str, environment: dict[str, str], patience: Patience, case: dict[str, Any]
) -> Record:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**environment, "MLDB_PRICES": str(own_prices(folder))}
    with _environment(settings):
        agent = make_agent(folder / "agents", PRELUDE + script, models={"main": "openai/scripted"})
        cell = make_cell(agent, make_case(folder / "cases", **case))
        return run_cell(cell, make_context(folder, sandbox, patience=patience))


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """These variables of the runner, which has them from its owner."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})


@contextlib.contextmanager
def _refusing() -> Iterator[int]:
    """A port that refuses connections: bound, and not listened on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextlib.contextmanager
def _babbling() -> Iterator[int]:
    """A port on which something answers that does not speak HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_babble, args=(server.accept,), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def _babble(accept: Callable[[], tuple[socket.socket, Any]]) -> None:
    with contextlib.suppress(OSError):
        while True:
            link, _ = accept()
            with link, contextlib.suppress(OSError):
                link.recv(100)
                link.sendall(b"\x16\x03\x01\x00\x05hello" * 50)
