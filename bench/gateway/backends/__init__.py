"""Where answers come from: one small protocol, kept by live upstreams and cassettes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bench.base.text import printable
from bench.gateway.answers import Answer, Rule
from bench.gateway.budget import Limit
from bench.gateway.request import Call, Json

Headers = list[tuple[str, str]]
_LONGEST_REASON = 1000


@dataclass
class CallAttempt:
    """What happens to one call on its way, told by the source as it happens."""

    lost: Callable[[], bool]
    """Told when a try may have been billed without an answer; says whether another try is affordable."""
    headers: Mapping[str, str]
    """Of the client's request, names in lower case."""
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
class Delivered:
    """An answer on its way to the client: `content` whole, or `chunks` of a stream."""

    status: int
    headers: Headers
    content: bytes = b""
    chunks: AsyncGenerator[bytes, None] | None = None
    answer: Answer | None = None
    """What `content` says."""


class BackendError(Exception):
    """No answer: what the agent is told, and whether it is a fault of ours, of the provider, or of the agent."""

    def __init__(self, status: int, code: str, message: str, *, infra: bool, limit: Limit | None = None) -> None:
        super().__init__(printable(message[:_LONGEST_REASON]))
        self.status = status
        self.code = code
        self.infra = infra
        self.limit = limit


class Backend(Protocol):
    """One model role's source of answers."""

    name: str
    """The model as the source knows it."""

    def rule(self, call: Call) -> Rule:
        """How its usage is to be read."""
        ...

    async def answer(self, call: Call, body: Json, attempt: CallAttempt) -> Delivered:
        """The answer, or `BackendError`. `body` is what is forwarded."""
        ...

    async def close(self) -> None: ...
