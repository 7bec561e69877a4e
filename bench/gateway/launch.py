"""The way in: `open_gateway` starts the gateway of one cell in a process of its own and takes it down again."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import Field, ValidationError

from bench.base.child import Child, log_tail, python_child
from bench.base.errors import InfraError, UserError
from bench.formats.model_usage import ModelUsage
from bench.gateway.backends.providers import find_role, secrets_in
from bench.gateway.config import SETTLE, Config, GatewayBase, Role, State
from bench.gateway.names import alias, real_name
from bench.gateway.prices import check_price_limit, check_search

_LONGEST_SOCKET_PATH = 107
"""Linux keeps a Unix socket's address in 108 bytes, the closing zero among them."""
_START_S = 60.0
_REPLY_S = 15.0
_GLANCE_S = 0.5
_PASSING_S = 1.0
_SETTLE_S = 300.0
_SILENT_S = 60.0
"""Without a sign of life where every two seconds one is due."""
_END_S = 180.0
_LOG_BYTES = 8000
_KEPT = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"})
_PROXIES = frozenset({"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"})
"""Also in lower case."""
_ROOT = Path(__file__).resolve().parents[2]


class GatewaySpec(GatewayBase):
    """What one cell may call, and how much of it."""

    models: dict[str, str]
    """Role -> model, such as `replay/demo` or `openai/gpt-4o-mini`."""
    cassettes: Path | None
    """The agent's folder `cassettes`."""
    own_prices: Path | None = None
    environment: dict[str, str] = Field(default_factory=lambda: dict(os.environ))
    """Where keys and addresses of providers are looked up."""
    task_sha256: str = ""
    """Of the task as the agent is told it: a cassette for another task is a miss before the agent has begun."""


class Gateway:
    """The runner's view of a gateway. Safe to use from several threads; totals are final after `close`."""

    def __init__(self, child: Child, keys: dict[str, str], roles: dict[str, Role]) -> None:
        self._child = child
        self._real = {role: real_name(it.name if it.simulated else it.model) for role, it in roles.items()}
        self._process = child.popen
        self._keys = keys
        self._lock = threading.Lock()
        self._held = b""
        self._owed = 0
        """States that were asked for and have not come."""
        self._last = State()
        self._final: State | None = None
        self._heard = 0.0
        """When a line came last."""
        self._silent = False
        """It gave no sign of life where some were due."""

    @property
    def pid(self) -> int:
        """Of the gateway's process."""
        return self._process.pid

    @property
    def key(self) -> str:
        """Admits to all models of the cell."""
        return self._keys[""]

    def role_key(self, role: str) -> str:
        """Admits to one model alone."""
        return self._keys[role]

    def alias(self, role: str) -> str:
        """The neutral name that the agent asks for."""
        if role not in self._keys:
            raise KeyError(role)
        return alias(role)

    def real_name(self, role: str) -> str:
        """The name by which the provider knows the model of `role`; the alias where the model is only scripted."""
        return self._real[role] or alias(role)

    @property
    def usage(self) -> list[ModelUsage]:
        """As it was told last."""
        return (self._final or self._last).usage

    def should_stop(self) -> bool:
        """Whether the agent is to be ended: its grace after a limit is over, or nothing more will be answered."""
        # The caller watches the agent's limits in between, and an agent can keep the gateway busy.
        return self._state(_GLANCE_S).stop

    def state(self) -> State:
        """How the gateway stands now, or stood at its end; while it is too busy to say so, how it stood before."""
        return self._state(_REPLY_S)

    def settle(self, interrupted: Callable[[], bool] = lambda: False) -> State:
        """Take no more calls, and find out whether the provider is down where the last ones had no answer.

        May take a minute or two; ends early when `interrupted` says so.
        """
        with self._lock:
            if self._final is not None or not self._ask(SETTLE):
                return self._final or self._last
            self._heard = time.monotonic()
            until = self._heard + _SETTLE_S
            while self._owed and time.monotonic() < min(until, self._heard + _SILENT_S) and not interrupted():
                if not self._listen(_GLANCE_S):
                    self._last = self._broken()
                    break
            self._silent = self._owed > 0 and time.monotonic() >= self._heard + _SILENT_S
            return self._last

    def _state(self, patience: float) -> State:
        with self._lock:
            if self._final is not None:
                return self._final
            # One question at a time: what is asked of a busy gateway would pile up.
            if (self._owed or self._ask(b"state")) and not self._listen(patience):
                self._last = self._broken()
            return self._last

    def _ask(self, question: bytes) -> bool:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(question + b"\n")
            self._process.stdin.flush()
        except OSError:
            self._last = self._broken()
            return False
        self._owed += 1
        return True

    def ready(self) -> None:
        """Wait until the gateway listens; raises `InfraError`."""
        self._owed = 1
        if not self._listen(_START_S) or self._owed or self._last.kind != "ready":
            raise InfraError("gateway_error", self._last.error or self._broken().error or "")

    def close(self) -> None:
        """Kill the keys, end what is under way, and make the totals final."""
        with self._lock:
            if self._final is not None:
                return
            assert self._process.stdin is not None and self._process.stdout is not None
            try:
                self._process.stdin.close()
            except OSError:
                self._held = b""
            # The last state is told without a question, after those that are still owed.
            self._owed += 1
            until = time.monotonic() + (_REPLY_S if self._silent else _END_S)
            while self._owed and time.monotonic() < until and self._listen(max(until - time.monotonic(), 0.0)):
                continue
            self._final = self._broken() if self._owed else self._last
            self._process.stdout.close()
            # After that `open_gateway` kills it.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_REPLY_S)

    def _listen(self, patience: float) -> bool:
        """Take what the gateway tells until it owes nothing, for at most `patience` seconds; False: it is gone."""
        assert self._process.stdout is not None
        end = time.monotonic() + patience
        while self._owed:
            while b"\n" not in self._held:
                there, _, _ = select.select([self._process.stdout], [], [], max(end - time.monotonic(), 0.0))
                if not there:
                    return True
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    return False
                self._held += data
            line, _, self._held = self._held.partition(b"\n")
            self._heard = time.monotonic()
            try:
                state = State.model_validate_json(line)
            except ValidationError:
                state = self._broken("wrote a line that is not a state")
            if state.kind == "busy":
                return True
            self._owed -= 1
            self._last = state
        return True

    def _broken(self, fault: str = "") -> State:
        """The last state that was told, and that the gateway has broken since, by `fault` or by its end."""
        if self._last.error is not None and not self._last.broken:
            # An outage that it had found, or a fault of the machine, is not undone by its end.
            return self._last.model_copy(update={"stop": True})
        status = None
        # What has closed its standard output is on its way out.
        with suppress(subprocess.TimeoutExpired):
            status = None if fault else self._process.wait(_PASSING_S)
        how = fault or ("does not answer" if status is None else f"ended with status {status}")
        last = log_tail(self._child.log, _LOG_BYTES).splitlines()[-1:]
        error = f"gateway_broken: the gateway's process {how}{': ' + last[0][:300] if last else ''}"
        told = {"error": error, "stop": True, "broken": True, "exit_status": status}
        return self._last.model_copy(update=told)


@contextmanager
def open_gateway(spec: GatewaySpec) -> Iterator[Gateway]:
    """A listening gateway. Afterwards its keys are dead, totals final.

    Raises `UserError` when a model cannot be served, `InfraError` when the gateway does not come up or a cassette was
    made for another task.
    """
    check_socket_path(spec.socket)
    roles = _roles(spec)
    keys = {name: f"bench-{secrets.token_urlsafe(32)}" for name in ["", *spec.models]}
    config = Config(
        **{name: getattr(spec, name) for name in GatewayBase.model_fields},
        keys={keys[""]: list(roles)} | {keys[role]: [role] for role in roles},
        roles=roles,
        secrets=_secrets(spec, roles),
    )
    orders = config.model_dump_json(by_alias=True).encode()
    # Not isolated: a library that litellm needs may be in PYTHONPATH.
    env = _environment(spec, roles)
    with python_child("bench.gateway.process", orders, env=env, cwd="/", isolated=False) as child:
        gateway = Gateway(child, keys, roles)
        try:
            gateway.ready()
            yield gateway
        finally:
            gateway.close()


def check_socket_path(path: Path) -> None:
    """Raise `UserError` when no Unix socket can have this path."""
    size = len(os.fsencode(path))
    if size > _LONGEST_SOCKET_PATH:
        raise UserError(
            f"a socket's path can have {_LONGEST_SOCKET_PATH} bytes, this has {size}",
            where=path,
            remedy="put the run into a folder with a shorter path",
        )


def _roles(spec: GatewaySpec) -> dict[str, Role]:
    roles = {
        role: find_role(model, role, spec.case, spec.cassettes, spec.own_prices, spec.environment)
        for role, model in spec.models.items()
    }
    limits = [spec.limits.cost_usd, spec.run_budget.limits.cost_usd if spec.run_budget else None]
    limit = min((it for it in limits if it is not None), default=None)
    for role in roles.values():
        check_search(role.model, spec.hosted_tools or role.simulated)
        check_price_limit(role.model, role.prices, limit)
        if role.task_sha256 and spec.task_sha256 and role.task_sha256 != spec.task_sha256:
            message = f"cassette {role.cassette} was made for another task.md of case {spec.case}; record it again"
            raise InfraError("cassette_miss", message)
    return roles


def _secrets(spec: GatewaySpec, roles: dict[str, Role]) -> list[str]:
    live = [role.provider for role in roles.values() if role.provider]
    keys = [value.removeprefix("Bearer ") for provider in live for value in provider.headers.values()]
    return [*secrets_in(spec.environment), *keys]


def _environment(spec: GatewaySpec, roles: dict[str, Role]) -> dict[str, str]:
    """litellm looks up its keys by itself; nothing else needs to see them."""
    inherited = dict(spec.environment)
    if not any(role.litellm for role in roles.values()):
        inherited = {name: value for name, value in inherited.items() if name in _KEPT or name.upper() in _PROXIES}
    gemini = next((it.provider for it in roles.values() if it.provider and it.model.startswith("gemini/")), None)
    if gemini is not None and "GOOGLE_GEMINI_BASE_URL" in inherited:
        # litellm does not know this name, and would send the key that belongs to the address to Google.
        inherited.setdefault("GEMINI_API_BASE", gemini.url)
    path = [str(_ROOT), *filter(None, [spec.environment.get("PYTHONPATH", "")])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(path)}
