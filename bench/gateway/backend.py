"""What answers a model call: one small protocol, kept by `replay` and `live`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from bench.gateway.meter import Limit, Tariff
from bench.gateway.protocol import ChatCall
from bench.record import Tokens


@dataclass(frozen=True)
class Reply:
    """A successful answer."""

    body: dict[str, JsonValue]
    """The completion as the agent gets it, apart from the model's name."""
    message: dict[str, JsonValue]
    finish_reason: str
    tokens: Tokens | None
    """None: the upstream did not say."""
    model: str
    """The name that the upstream gave itself."""
    retries: int = 0


class BackendError(Exception):
    """No answer: what the agent is told, and whether it is a fault of ours, of the provider, or of the agent."""

    def __init__(
        self, status: int, code: str, message: str, *, infra: bool, limit: Limit | None = None, retries: int = 0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.infra = infra
        self.limit = limit
        self.retries = retries


class Backend(Protocol):
    """One model role's source of answers; used from several threads at once."""

    @property
    def tariff(self) -> Tariff: ...

    def complete(self, call: ChatCall, lost: Callable[[], bool]) -> Reply:
        """The answer, or `BackendError`.

        `lost` is told when a try may have been billed without an answer; it says whether another try is affordable.
        """
        ...

    def close(self) -> None: ...
