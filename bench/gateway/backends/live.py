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

from bench.gateway.answers import read_answer
from bench.gateway.backends import BackendError, CallHistory, Response, TransportFault
from bench.gateway.backends.probe import UNDERSTOOD, Probe
from bench.gateway.backends.refusals import is_of_account
from bench.gateway.backends.traffic import Traffic
from bench.gateway.config import Patience
from bench.gateway.json_values import Json
from bench.gateway.request import Call, Dialect, RequestRefused
from bench.gateway.streams import StreamLost
from bench.gateway.usage import Rule

_ERROR_AT = 1000
"""Within so many bytes an answer that is an error says so."""
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class Transport(Protocol):
    """One try to get an answer."""

    def rule(self, call: Call) -> Rule: ...

    async def send(self, call: Call, body: Json, timeout_s: float) -> Response:
        """The answer, or `TransportFault`."""
        ...

    async def close(self) -> None: ...


class LiveBackend:
    """Answers from one provider. Whether what fails is its fault is settled by `probe`, never by what a call met."""

    def __init__(
        self, name: str, transport: Transport, patience: Patience, deadline: float, redact: Callable[[str], str],
        probe: Probe, traffic: Traffic,
    ) -> None:  # fmt: skip
        self.name = name
        self._transport = transport
        self._patience = patience
        self._deadline = deadline
        self._redact = redact
        self._probe = probe
        self._traffic = traffic
        self._doubt: tuple[Dialect, bool] | None = None
        """Protocol and streaming of the last call that was begun, until anything is answered."""

    def rule(self, call: Call) -> Rule:
        return self._transport.rule(call)

    async def answer(self, call: Call, body: Json, history: CallHistory) -> Response:
        self._doubt = call.dialect, call.stream
        for number in itertools.count():
            if number:
                history.again()
            try:
                response = await self._try(call, body)
            except TransportFault as fault:
                wait = self._pause(fault, number, history)
                if wait is None:
                    return await self._settled(call, fault, number + 1)
                await asyncio.sleep(wait)
            else:
                if response.status != 200:
                    self._doubt = None
                return response
        raise AssertionError

    def answered(self, call: Call) -> None:
        self._doubt = None
        self._probe.worked(call.dialect, call.stream)

    async def outage(self) -> str:
        if self._doubt is None:
            return ""
        verdict = await self._probe.settle_finally(*self._doubt)
        return f"{verdict.code}: the last calls had no answer; {verdict.outage}" if verdict.outage else ""

    def _pause(self, fault: TransportFault, number: int, history: CallHistory) -> float | None:
        """Seconds until the next try; None when there is none."""
        history.failed(fault.kind)
        affordable = not fault.billed or history.lost()
        wait = self._wait_s(fault, number)
        if fault.lasting or wait is None or not affordable or number + 1 >= self._patience.tries:
            return None
        return wait if time.monotonic() + wait < self._deadline else None

    async def _settled(self, call: Call, fault: TransportFault, tries: int) -> Response:
        """What the agent gets for `fault`; raises `BackendError`, as infrastructure's where the provider is down."""
        verdict = await self._probe.settle(call.dialect, call.stream, self._deadline)
        if verdict.outage:
            raise BackendError(502, verdict.code, f"{fault}, after {tries} tries; {verdict.outage}", infra=True)
        if verdict.works:
            self._doubt = None
        if time.monotonic() >= self._deadline:
            # Whether the provider was failing is settled after the cell's end.
            message = "the time of this cell ended during the call"
            raise BackendError(402, "budget_exceeded", message, infra=False, limit="time_limit")
        if fault.response is not None:
            return fault.response
        status = 504 if fault.kind == "timeout" else 502
        raise BackendError(status, "upstream_failed", f"{fault}, after {tries} tries", infra=False)

    async def close(self) -> None:
        await self._transport.close()

    async def _try(self, call: Call, body: Json) -> Response:
        await self._traffic.begin()
        flows = False
        try:
            left = self._left_s()
            # The transport's own timeout starts anew with every byte.
            async with asyncio.timeout(left):
                response = await self._transport.send(call, body, left)
            if response.status == 200:
                self._probe.answering()
            if response.chunks is not None:
                flows = True
                return replace(response, chunks=self._watched(response.chunks))
            return self._read(call, response)
        except TimeoutError:
            raise TransportFault("timeout", "the upstream's answer was too slow", billed=True) from None
        except (TransportFault, BackendError):
            raise
        except Exception as error:
            # By a request that a library of ours fails over; or because the library is broken, which a probe shows.
            fault = TransportFault("gateway", f"the gateway failed: {type(error).__name__}", billed=True)
            fault.lasting = True
            raise fault from error
        finally:
            if not flows:
                self._traffic.end()

    def _left_s(self) -> float:
        """Seconds for the next answer or piece of one."""
        return max(min(self._patience.answer_s, self._deadline - time.monotonic()), 0.1)

    async def _watched(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The stream, whose end by a fault is a `StreamLost`."""
        try:
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
        finally:
            self._traffic.end()

    def _read(self, call: Call, response: Response) -> Response:
        status = response.status
        if status == 200:
            answer = read_answer(call.dialect, response.content)
            if answer is None:
                raise TransportFault("invalid", self._no_answer(response.content), billed=True)
            return replace(response, answer=answer)
        said = self._reason(response.content)
        shown = self._shown(call, response)
        ours = is_of_account(said)
        if status in UNDERSTOOD and not ours:
            return shown
        wait = retry_after({name.lower(): value for name, value in response.headers})
        # What 401 and 403 say may hold parts of the key, and no agent can fix their cause.
        reason = f" {said}" if ours or status not in (401, 403, *_PASSING) else ""
        fault = TransportFault(str(status), f"the upstream answered {status}{reason}", billed=False, wait_s=wait)
        fault.lasting = ours or status not in _PASSING
        fault.response = shown
        raise fault

    def _shown(self, call: Call, response: Response) -> Response:
        """A refusal as the client may see it: not to be repeated by itself, as it was repeated here."""
        headers = [*response.headers, ("X-Should-Retry", "false")]
        content = self._redact(response.content.decode("utf-8", "replace")).encode()
        if response.status in (401, 403) or not 400 <= response.status < 600:
            status = response.status if response.status in (401, 403) else 502
            refused = RequestRefused(
                status, "upstream_refused", f"the provider refused this request with status {response.status}"
            )
            headers = [("Content-Type", "application/json"), ("X-Should-Retry", "false")]
            return Response(status, headers, json.dumps(refused.body(call.dialect)).encode())
        return replace(response, headers=headers, content=content)

    def _no_answer(self, content: bytes) -> str:
        """Why `content`, which came with status 200, is no answer: some routers have status 200 for errors, too."""
        said = self._reason(content) if b'"error"' in content[:_ERROR_AT] else ""
        return "the upstream's answer is not of its protocol" + (f"; it says: {said}" if said else "")

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
