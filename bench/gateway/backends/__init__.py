"""Where answers come from: one small protocol, kept by live upstreams and cassettes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from bench.gateway.answers import Answer
from bench.gateway.json_values import Json
from bench.gateway.request import Call, RequestRefused
from bench.gateway.run_budget import Limit
from bench.gateway.usage import Rule

Headers = list[tuple[str, str]]


@dataclass
class CallHistory:
    """What happens to one call on its way, told by the backend as it happens."""

    lost: Callable[[], bool]
    """Told when a try may have been billed without an answer; says whether another try is affordable."""
    retries: int = 0
    faults: list[str] = field(default_factory=list)
    waited: tuple[float, float] | None = None
    """The stretch of time that went to failed tries and the waits after them."""
    _began: float = field(default_factory=time.monotonic)

    def failed(self, kind: str) -> None:
        self.faults.append(kind)
        self.waited = (self._began, time.monotonic())

    def again(self) -> None:
        """The next try starts."""
        self.retries += 1
        self.waited = (self._began, time.monotonic())


@dataclass
class Response:
    """An answer on its way to the client: `content` whole, or `chunks` of a stream."""

    status: int
    headers: Headers
    content: bytes = b""
    chunks: AsyncGenerator[bytes, None] | None = None
    answer: Answer | None = None
    """What `content` says, when the call succeeded."""


class BackendError(RequestRefused):
    """No answer. `infra`: by a fault of ours or of the provider, not of the agent."""

    def __init__(self, status: int, code: str, message: str, *, infra: bool, limit: Limit | None = None) -> None:
        super().__init__(status, code, message, limit)
        self.infra = infra


class TransportFault(Exception):
    """A try that brought nothing. `billed`: the upstream may have done the work."""

    def __init__(self, kind: str, message: str, *, billed: bool, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.billed = billed
        self.wait_s = wait_s
        """What the upstream asks us to wait."""
        self.lasting = False
        """Another try would bring the same."""
        self.response: Response | None = None
        """What the upstream said, as the client may see it."""


def lost(error: Exception) -> TransportFault:
    """The fault of a connection that ended, or did not speak HTTP, after the request was sent."""
    return TransportFault("lost", f"the upstream's answer was lost ({type(error).__name__})", billed=True)


class Backend(Protocol):
    """Where the answers of one model role come from."""

    name: str
    """The model as the backend knows it."""

    def rule(self, call: Call) -> Rule:
        """How its usage is to be read."""
        ...

    async def answer(self, call: Call, body: Json, history: CallHistory) -> Response:
        """The answer, or `BackendError`. `body` is what is forwarded."""
        ...

    def answered(self, call: Call) -> None:
        """The whole of the answer to `call` has come and is one."""
        ...

    async def outage(self) -> str:
        """After the last call: what shows that the provider is down, if the last calls had no answer; or nothing.

        It begins with its code.
        """
        ...

    async def close(self) -> None: ...
