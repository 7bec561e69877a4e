"""The live backend: bounded retries with jitter around a transport, and what a fault means."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from bench.gateway.answers import Rule, read_answer, rule_of
from bench.gateway.backends import BackendError, CallHistory, Headers, Response, TransportFault
from bench.gateway.backends.http_client import HttpClient, Incoming
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

    async def send(self, call: Call, body: Json, timeout_s: float) -> Response:
        """The answer, or `TransportFault`."""
        ...

    async def close(self) -> None: ...


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

    async def answer(self, call: Call, body: Json, history: CallHistory) -> Response:
        for number in itertools.count():
            if number:
                history.again()
            try:
                return await self._try(call, body)
            except TransportFault as fault:
                await asyncio.sleep(self._pause(fault, number, history))
        raise AssertionError

    def _pause(self, fault: TransportFault, number: int, history: CallHistory) -> float:
        """Seconds until the next try; raises `BackendError` when there is none."""
        history.failed(fault.kind)
        affordable = not fault.billed or history.lost()
        wait = self._wait_s(fault, number)
        if time.monotonic() + (wait or 0.0) >= self._deadline:
            # A long answer that the end cut short is the agent's affair; a provider that was failing is not.
            if fault.kind == "timeout":
                message = "the time of this cell ended during the call"
                raise BackendError(402, "budget_exceeded", message, infra=False, limit="time_limit")
            raise _broken(f"{fault}, until the time of the cell ended")
        if number + 1 == self._patience.tries or not affordable or wait is None:
            raise _broken(f"{fault}, after {number + 1} tries")
        return wait

    async def close(self) -> None:
        await self._transport.close()

    async def _try(self, call: Call, body: Json) -> Response:
        left = self._left_s()
        try:
            # The transport's own timeout starts anew with every byte.
            async with asyncio.timeout(left):
                response = await self._transport.send(call, body, left)
        except TimeoutError:
            raise TransportFault("timeout", "the upstream's answer was too slow", billed=True) from None
        if response.chunks is not None:
            return replace(response, chunks=self._watched(response.chunks))
        return self._read(call, response)

    def _left_s(self) -> float:
        """Seconds for the next answer or piece of one."""
        return max(min(self._patience.answer_s, self._deadline - time.monotonic()), 0.1)

    async def _watched(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The stream, whose end by a fault is a `StreamLost`."""
        async with aclosing(chunks):
            while True:
                try:
                    async with asyncio.timeout(self._left_s()):
                        chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise StreamLost("the upstream's stream stood still") from None
                except TransportFault as fault:
                    raise StreamLost(str(fault)) from None
                yield chunk

    def _read(self, call: Call, response: Response) -> Response:
        status = response.status
        if status == 200:
            answer = read_answer(call.dialect, response.content)
            if answer is None:
                raise TransportFault("invalid", "the upstream's answer is not of its protocol", billed=True)
            return replace(response, answer=answer)
        # What 401 and 403 say may hold parts of the key, and no agent can fix their cause.
        said = "" if status in (401, 403) else self._reason(response.content)
        no_money = any(words in said for words in _NO_MONEY)
        if status in _AGENTS_FAULT and not no_money:
            return replace(response, content=self._redact(response.content.decode("utf-8", "replace")).encode())
        if status not in _PASSING or no_money:
            raise _broken(f"the upstream answered {status} {said}".rstrip())
        wait = retry_after({name.lower(): value for name, value in response.headers})
        raise TransportFault(str(status), f"the upstream answered {status}", billed=False, wait_s=wait)

    def _reason(self, content: bytes) -> str:
        """The provider's explanation in one line, without a key."""
        try:
            error = json.loads(content)["error"]
            text = f"{error.get('message')} [{error.get('code') or error.get('type')}]"
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            text = content[:500].decode("utf-8", "replace")
        return " ".join(self._redact(text).split())[:500]

    def _wait_s(self, fault: TransportFault, number: int) -> float | None:
        """Seconds until the next try: what the provider asks for, else full jitter; None: longer than we wait."""
        longest = self._patience.longest_wait_s
        if fault.wait_s is not None:
            return fault.wait_s if fault.wait_s <= min(longest, self._deadline - time.monotonic()) else None
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


def _broken(message: str) -> BackendError:
    return BackendError(502, "upstream_broken", message, infra=True)


class NativeTransport:
    """One provider over HTTP."""

    def __init__(self, provider: Provider, connect_s: float, hosted: bool) -> None:
        self._provider = provider
        self._hosted = hosted
        self._paths = {dialect: path for path, dialect in ROUTES.items()}
        self._client = HttpClient(provider.url, connect_s)

    def rule(self, call: Call) -> Rule:
        gemini = "generativelanguage.googleapis.com" in self._provider.url
        return rule_of(call.dialect, "gemini" if gemini else "openai")

    async def send(self, call: Call, body: Json, timeout_s: float) -> Response:
        del timeout_s  # the caller stops waiting by itself
        content = json.dumps(body, separators=(",", ":")).encode("ascii")
        incoming = await self._client.post(self._paths[call.dialect], self._headers(call.headers), content)
        if incoming.status == 200 and _is_stream(incoming):
            return await self._begun(incoming)
        content = b"".join([piece async for piece in _bounded(incoming)])
        return Response(incoming.status, _returned(incoming), content)

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

    async def _begun(self, incoming: Incoming) -> Response:
        """A stream, after its first piece has come: until then another try is possible."""
        pieces = _bounded(incoming)
        try:
            first = await anext(pieces, b"")
        except BaseException:
            await pieces.aclose()
            raise
        if not first:
            raise TransportFault("lost", "the upstream's stream is empty", billed=True)
        return Response(incoming.status, _returned(incoming), chunks=_chunks(first, pieces))


async def _chunks(first: bytes, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(pieces):
        yield first
        async for piece in pieces:
            yield piece


async def _bounded(incoming: Incoming) -> AsyncGenerator[bytes, None]:
    """The pieces of an answer; `TransportFault` when it is too large."""
    size = 0
    async with aclosing(incoming.body):
        async for piece in incoming.body:
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                message = f"the upstream's answer is larger than {MAX_ANSWER_BYTES} bytes"
                raise TransportFault("invalid", message, billed=True)
            yield piece


def _is_stream(incoming: Incoming) -> bool:
    return any(name.lower() == "content-type" and "event-stream" in value for name, value in incoming.headers)


def _returned(incoming: Incoming) -> Headers:
    return [(name, value) for name, value in incoming.headers if name.lower() not in _NOT_RETURNED]
