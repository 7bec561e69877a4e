"""The way in: `open_gateway` starts the gateway of one cell in a process of its own and takes it down again."""

from __future__ import annotations

import os
import secrets
import select
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import Field, ValidationError

from bench.base.child import Child, log_tail, python_child
from bench.base.errors import InfraError, UserError
from bench.gateway.backends.providers import find_role, secrets_in
from bench.gateway.config import ALIAS_PREFIX, Config, GatewayBase, Role, State
from bench.gateway.prices import check_price_limit

_LONGEST_SOCKET_PATH = 107
"""Linux keeps a Unix socket's address in 108 bytes, the closing zero among them."""
_START_S = 60.0
_REPLY_S = 15.0
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


class Gateway:
    """The runner's view of a gateway. Safe to use from several threads; totals are final after `close`."""

    def __init__(self, child: Child, keys: dict[str, str]) -> None:
        self._child = child
        self._process = child.popen
        self._keys = keys
        self._lock = threading.Lock()
        self._held = b""
        self._final: State | None = None

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
        return f"{ALIAS_PREFIX}{role}"

    def should_stop(self) -> bool:
        """Whether the agent is to be ended: its grace after a limit is over, or nothing more will be answered."""
        return self.state().stop

    def state(self) -> State:
        """How the gateway stands now, or stood at its end."""
        with self._lock:
            if self._final is not None:
                return self._final
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(b"state\n")
                self._process.stdin.flush()
                return self._listen(_REPLY_S)
            except OSError:
                return State(error=self._broken(), stop=True)

    def ready(self) -> None:
        """Wait until the gateway listens; raises `InfraError`."""
        state = self._listen(_START_S)
        if state.kind != "ready":
            raise InfraError("gateway_error", state.error or "the gateway did not come up")

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
            self._final = self._listen(_REPLY_S)
            self._process.stdout.close()
            # After that `open_gateway` kills it.
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_REPLY_S)

    def _listen(self, patience: float) -> State:
        """The next line from the gateway as a state; one that tells a fault when none comes."""
        assert self._process.stdout is not None
        end = time.monotonic() + patience
        while b"\n" not in self._held:
            there, _, _ = select.select([self._process.stdout], [], [], max(end - time.monotonic(), 0.0))
            data = os.read(self._process.stdout.fileno(), 1 << 16) if there else b""
            if not data:
                return State(error=self._broken(), stop=True)
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        try:
            return State.model_validate_json(line)
        except ValidationError:
            return State(error="gateway_broken: the gateway's process wrote a line that is not a state", stop=True)

    def _broken(self) -> str:
        code = self._process.poll()
        how = "does not answer" if code is None else f"ended with status {code}"
        last = log_tail(self._child.log, _LOG_BYTES).splitlines()[-1:]
        return f"gateway_broken: the gateway's process {how}{': ' + last[0][:300] if last else ''}"


@contextmanager
def open_gateway(spec: GatewaySpec) -> Iterator[Gateway]:
    """A listening gateway, or `UserError` when a model cannot be served. Afterwards its keys are dead, totals final."""
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
        gateway = Gateway(child, keys)
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
        check_price_limit(role.model, role.prices, limit)
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
    path = [str(_ROOT), *filter(None, [spec.environment.get("PYTHONPATH", "")])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(path)}
