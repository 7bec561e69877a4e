"""The live source: bounded retries with jitter around a transport, and what a fault means."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from bench.gateway.answers import read_answer
from bench.gateway.config import Patience
from bench.gateway.native import Raw, TransportFault
from bench.gateway.protocol import Call, Json
from bench.gateway.source import Attempt, Delivered, SourceError, StreamLost
from bench.gateway.usage import Rule

_AGENTS_FAULT = frozenset({400, 413, 422})
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_NO_MONEY = ("insufficient_quota", "credit balance is too low")
"""What providers say when waiting does not help."""


class Transport(Protocol):
    """One try to get an answer."""

    def rule(self, call: Call) -> Rule: ...

    async def send(self, call: Call, body: Json, headers: Mapping[str, str], timeout_s: float) -> Raw:
        """The answer, or `TransportFault`."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class _Trouble:
    """A try that brought nothing but may be repeated."""

    kind: str
    message: str
    wait_s: float | None = None
    billed: bool = False


class LiveSource:
    """Answers from one provider."""

    def __init__(
        self, name: str, transport: Transport, patience: Patience, deadline: float, redact: Callable[[str], str]
    ) -> None:
        self.name = name
        self._transport = transport
        self._patience = patience
        self._deadline = deadline
        self._redact = redact

    def rule(self, call: Call) -> Rule:
        return self._transport.rule(call)

    async def answer(self, call: Call, body: Json, attempt: Attempt) -> Delivered:
        for number in range(self._patience.tries):
            if number:
                attempt.again()
            outcome = await self._try(call, body, attempt)
            if isinstance(outcome, Delivered):
                return outcome
            attempt.failed(outcome.kind)
            affordable = attempt.lost() if outcome.billed else True
            wait = self._wait_s(outcome, number)
            if time.monotonic() + (wait or 0.0) >= self._deadline:
                # A long answer that the end cut short is the agent's affair; a provider that was failing is not.
                slow = outcome.kind == "timeout"
                raise _out_of_time() if slow else _broken(f"{outcome.message}, until the time of the cell ended")
            if number + 1 == self._patience.tries or not affordable or wait is None:
                raise _broken(f"{outcome.message}, after {number + 1} tries")
            await asyncio.sleep(wait)
        raise _broken("no try was allowed")

    async def close(self) -> None:
        await self._transport.close()

    async def _try(self, call: Call, body: Json, attempt: Attempt) -> Delivered | _Trouble:
        left = max(min(self._patience.answer_s, self._deadline - time.monotonic()), 0.1)
        try:
            # The transport's own timeout starts anew with every byte.
            async with asyncio.timeout(left):
                raw = await self._transport.send(call, body, attempt.headers, left)
        except TimeoutError:
            return _Trouble("timeout", "the upstream's answer was too slow", billed=True)
        except TransportFault as fault:
            return _Trouble(fault.kind, str(fault), billed=fault.billed)
        if raw.chunks is not None:
            return Delivered(raw.status, raw.headers, chunks=self._watched(raw.chunks))
        return self._read(call, raw)

    async def _watched(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The stream, whose end by a fault is a `StreamLost`."""
        async with aclosing(chunks):
            while True:
                left = max(min(self._patience.answer_s, self._deadline - time.monotonic()), 0.1)
                try:
                    async with asyncio.timeout(left):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise StreamLost("stream_broken", "the upstream's stream stood still") from None
                except TransportFault as fault:
                    raise StreamLost("stream_broken", str(fault)) from None
                yield chunk

    def _read(self, call: Call, raw: Raw) -> Delivered | _Trouble:
        status = raw.status
        if status == 200:
            answer = read_answer(call.dialect, raw.content)
            if answer is None:
                return _Trouble("invalid", "the upstream's answer is not of its protocol", billed=True)
            return Delivered(status, raw.headers, raw.content, answer=answer)
        # What 401 and 403 say may hold parts of the key, and no agent can mend it.
        said = "" if status in (401, 403) else self._reason(raw.content)
        no_money = any(words in said for words in _NO_MONEY)
        if status in _AGENTS_FAULT and not no_money:
            return Delivered(status, raw.headers, self._redact(raw.content.decode("utf-8", "replace")).encode())
        if status not in _PASSING or no_money:
            raise _broken(f"the upstream answered {status} {said}".rstrip())
        wait = retry_after({name.lower(): value for name, value in raw.headers})
        return _Trouble(str(status), f"the upstream answered {status}", wait_s=wait)

    def _reason(self, content: bytes) -> str:
        """The provider's explanation in one line, without a key."""
        try:
            error = json.loads(content)["error"]
            text = f"{error.get('message')} [{error.get('code') or error.get('type')}]"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            text = content[:500].decode("utf-8", "replace")
        return " ".join(self._redact(text).split())[:500]

    def _wait_s(self, trouble: _Trouble, number: int) -> float | None:
        """Seconds until the next try: what the provider asks for, else full jitter; None: longer than we wait."""
        longest = self._patience.longest_wait_s
        if trouble.wait_s is not None:
            return trouble.wait_s if trouble.wait_s <= min(longest, self._deadline - time.monotonic()) else None
        return random.uniform(0, min(self._patience.first_wait_s * 2**number, longest))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the upstream wants us to wait; the header may also be a date."""
    exact, value = headers.get("retry-after-ms", ""), headers.get("retry-after")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", exact):
        return float(exact) / 1000
    if value is None:
        return None
    if re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]*)?\s*", value):
        return float(value)
    from email.utils import parsedate_to_datetime

    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError, OSError):
        return None


def _out_of_time() -> SourceError:
    message = "the time of this cell ended during the call"
    return SourceError(402, "budget_exceeded", message, infra=False, limit="time_limit")


def _broken(message: str) -> SourceError:
    return SourceError(502, "upstream_broken", message, infra=True)
