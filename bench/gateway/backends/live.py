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

from bench.gateway.answers import Rule, read_answer
from bench.gateway.backends import BackendError, CallAttempt, Delivered, Headers
from bench.gateway.backends.http_client import HttpClient, Incoming, Lost, Unreachable
from bench.gateway.config import Patience, Provider
from bench.gateway.request import ROUTES, Call, Json, allowed_betas
from bench.gateway.streams import StreamLost

_AGENTS_FAULT = frozenset({400, 413, 422})
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_NO_MONEY = ("insufficient_quota", "credit balance is too low")
"""What providers say when waiting does not help."""
MAX_ANSWER_BYTES = 50_000_000
_FORWARDED = ("accept", "anthropic-version", "anthropic-beta", "openai-beta", "idempotency-key", "user-agent")
_NOT_RETURNED = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "content-length", "content-encoding", "set-cookie",
        "openai-organization", "openai-project", "anthropic-organization-id",
    }
)  # fmt: skip
"""Hop-by-hop headers, what says whose account it is, and the length, which the next hop counts itself."""


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


class LiveBackend:
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

    async def answer(self, call: Call, body: Json, attempt: CallAttempt) -> Delivered:
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

    async def _try(self, call: Call, body: Json, attempt: CallAttempt) -> Delivered | _Trouble:
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


def _out_of_time() -> BackendError:
    message = "the time of this cell ended during the call"
    return BackendError(402, "budget_exceeded", message, infra=False, limit="time_limit")


def _broken(message: str) -> BackendError:
    return BackendError(502, "upstream_broken", message, infra=True)


class TransportFault(Exception):
    """A try that brought nothing. `billed`: the upstream may have done the work."""

    def __init__(self, kind: str, message: str, *, billed: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.billed = billed


@dataclass
class Raw:
    """An upstream's answer before anybody has looked into it."""

    status: int
    headers: Headers
    content: bytes = b""
    chunks: AsyncGenerator[bytes, None] | None = None
    """Of a stream that has begun."""


class NativeTransport:
    """One provider over HTTP."""

    def __init__(self, provider: Provider, connect_s: float, hosted: bool) -> None:
        self._provider = provider
        self._hosted = hosted
        self._paths = {dialect: path for path, dialect in ROUTES.items()}
        self._client = HttpClient(provider.url, connect_s)

    def rule(self, call: Call) -> Rule:
        if call.dialect == "chat":
            return "gemini" if "generativelanguage.googleapis.com" in self._provider.url else "openai"
        rules: dict[str, Rule] = {"responses": "responses", "embeddings": "embeddings"}
        return rules.get(call.dialect, "anthropic")

    async def send(self, call: Call, body: Json, headers: Mapping[str, str], timeout_s: float) -> Raw:
        del timeout_s  # whoever asks stops waiting by itself
        content = json.dumps(body, separators=(",", ":")).encode("ascii")
        try:
            incoming = await self._client.post(self._paths[call.dialect], self._headers(headers), content)
            if incoming.status == 200 and _is_stream(incoming):
                return await self._begun(incoming)
            return Raw(incoming.status, _returned(incoming), await _read(incoming))
        except Unreachable as error:
            raise TransportFault("unreachable", f"the upstream cannot be reached ({error})", billed=False) from None
        except Lost as error:
            raise _lost(error) from None

    async def close(self) -> None:
        await self._client.close()

    def _headers(self, client: Mapping[str, str]) -> dict[str, str]:
        kept = {name: client[name] for name in _FORWARDED if name in client}
        if beta := kept.pop("anthropic-beta", ""):
            beta = allowed_betas(beta, self._hosted)
        return {
            "anthropic-version": "2023-06-01",
            **kept,
            **({"anthropic-beta": beta} if beta else {}),
            "content-type": "application/json",
            "accept-encoding": "identity",
            **self._provider.headers,
        }

    async def _begun(self, incoming: Incoming) -> Raw:
        """A stream, after its first piece has come: until then another try is possible."""
        try:
            first = await anext(incoming.body, b"")
        except BaseException:
            await incoming.body.aclose()
            raise
        if not first:
            raise TransportFault("lost", "the upstream's stream is empty", billed=True)
        return Raw(incoming.status, _returned(incoming), chunks=_chunks(first, incoming))


async def _chunks(first: bytes, incoming: Incoming) -> AsyncGenerator[bytes, None]:
    async with aclosing(incoming.body):
        yield first
        size = len(first)
        try:
            async for piece in incoming.body:
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise TransportFault(
                        "invalid", f"the upstream's stream is larger than {MAX_ANSWER_BYTES} bytes", billed=True
                    )
                yield piece
        except Lost as error:
            raise _lost(error) from None


async def _read(incoming: Incoming) -> bytes:
    content = bytearray()
    async with aclosing(incoming.body):
        async for piece in incoming.body:
            content += piece
            if len(content) > MAX_ANSWER_BYTES:
                message = f"the upstream's answer is larger than {MAX_ANSWER_BYTES} bytes"
                raise TransportFault("invalid", message, billed=True)
    return bytes(content)


def _is_stream(incoming: Incoming) -> bool:
    return any(name.lower() == "content-type" and "event-stream" in value for name, value in incoming.headers)


def _returned(incoming: Incoming) -> Headers:
    return [(name, value) for name, value in incoming.headers if name.lower() not in _NOT_RETURNED]


def _lost(error: Exception) -> TransportFault:
    return TransportFault("lost", f"the upstream's answer was lost ({error})", billed=True)
