"""Whether it is the provider that fails, or only what the agent asks: settled by a tiny fixed request of our own.

Of what fails, the agent chooses the content, the protocol and the rate. None of it is in a probe: the content is ours,
another protocol of the provider counts as long as the failing one never worked, and before a failed probe is
believed, another one is sent in which the cell sends nothing else. One that this process was too busy for, or had no
room for, says nothing: an agent's requests can see to that. So an outage is never the agent's choice.
"""

from __future__ import annotations

import asyncio
import errno
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from bench.gateway.answers import Answer, read_answer
from bench.gateway.backends import BackendError, Response, TransportFault
from bench.gateway.backends.refusals import RATE_USED_UP, USED_UP, is_of_account, is_out_of_money, is_used_up
from bench.gateway.backends.traffic import LastAnswer, Lateness, Traffic
from bench.gateway.config import Patience
from bench.gateway.json_values import Json
from bench.gateway.request import Call, Dialect
from bench.gateway.streams import StreamLost, forward

PROBE_TOKENS = 64
"""Cap of a probe's answer, and more than its question has."""
_QUESTION = "Reply with the word OK."
_BODIES: dict[Dialect, Json] = {
    "chat": {"messages": [{"role": "user", "content": _QUESTION}], "max_completion_tokens": PROBE_TOKENS},
    "responses": {"input": _QUESTION, "max_output_tokens": PROBE_TOKENS},
    "messages": {"messages": [{"role": "user", "content": _QUESTION}], "max_tokens": PROBE_TOKENS},
    "count_tokens": {"messages": [{"role": "user", "content": _QUESTION}]},
    "embeddings": {"input": [_QUESTION]},
    "generate": {"contents": [{"role": "user", "parts": [{"text": _QUESTION}]}],
                 "generationConfig": {"maxOutputTokens": PROBE_TOKENS}},
    "count_generate": {"contents": [{"role": "user", "parts": [{"text": _QUESTION}]}]},
}  # fmt: skip
_STREAMED: frozenset[Dialect] = frozenset({"chat", "responses", "messages", "generate"})
UNDERSTOOD = frozenset({400, 413, 422})
"""Statuses that say something about a request: what gives them reads requests, and takes the key and the model, unless
it says otherwise."""
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_REFUSED = frozenset({400, 403, 404, 405, 422})
"""Statuses of a protocol that is not offered for a model."""
_BREATH_S = 5.0
"""Longest silence before the second probe, where it is not the rate that was refused."""
_LAST_TRIES, _LAST_S = 3, 120.0
"""Of the probe at a cell's end, and until when one more begins: who waits for it gives the gateway up after 300 s."""
_SHOWN = 300


class Sender(Protocol):
    """What a probe goes through: the transport that the cell's own calls go through."""

    async def send(self, call: Call, body: Json, timeout_s: float) -> Response: ...


@dataclass(frozen=True)
class Probed:
    """One probe and what came of it."""

    call: Call
    ok: bool
    status: int
    """Of HTTP; 0: no answer."""
    said: str
    """In words, without keys."""
    seconds: float
    answer: Answer | None = None


class ProbeAccount(Protocol):
    """Who pays for probes and writes them down: the run, never the cell."""

    def hold(self) -> bool:
        """Set a probe's worst case aside; False: the run cannot afford it."""
        ...

    def settle(self, probed: Probed) -> None: ...


@dataclass(frozen=True)
class Verdict:
    """What probes have shown: the provider works, or is down by this `outage`; or neither, as no probe could tell."""

    works: bool
    outage: str = ""
    code: str = "upstream_broken"
    """Or that the account is used up, of which this cell has used."""


_WORKS, _UNKNOWN = Verdict(True), Verdict(False)


class Probe:
    """Probes of one model. Belongs to one event loop."""

    def __init__(
        self, name: str, dialects: Collection[Dialect], sender: Sender, patience: Patience, account: ProbeAccount,
        traffic: Traffic, last: LastAnswer, redact: Callable[[str], str], provider: str = "",
    ) -> None:  # fmt: skip
        self._name = name
        self._provider = provider
        self._dialects = dialects
        self._sender = sender
        self._patience = patience
        self._account = account
        self._traffic = traffic
        self._last = last
        self._redact = redact
        self._lock = asyncio.Lock()
        self._left = patience.probes
        self._worked: set[tuple[Dialect, bool]] = set()
        """Protocols, streamed or not, in which the provider has answered in this cell."""
        self._good_since = -float("inf")
        """When the last probe that was answered began."""
        self._outage = Verdict(False)
        self._hindered = False
        """This machine was too busy or had no room for the last probe."""

    def answering(self) -> None:
        """The provider begins to answer a call of the cell, and so to bill it."""
        self._traffic.answered.add(self._provider)

    def worked(self, dialect: Dialect, stream: bool) -> None:
        """The provider has answered a call of the cell."""
        self._worked.add((dialect, stream))
        self._last.note()

    async def settle(self, dialect: Dialect, stream: bool, until: float) -> Verdict:
        """Whether the provider works, after a call of that kind had no answer; waits until `until` (monotonic)."""
        return await self._settle(dialect, stream, until, final=False)

    async def settle_finally(self, dialect: Dialect, stream: bool) -> Verdict:
        """As `settle`, for a cell that sends nothing any more; takes a minute or two at most, each time it asks.

        It asks again where this machine was too busy: the agent, which could keep it busy, has ended.
        """
        last_begin = time.monotonic() + _LAST_S
        for left in reversed(range(_LAST_TRIES)):
            verdict = await self._settle(dialect, stream, float("inf"), final=True)
            if not (self._hindered and left) or time.monotonic() > last_begin:
                break
            await asyncio.sleep(min(_BREATH_S, self._patience.quiet_s))
        return verdict

    async def _settle(self, dialect: Dialect, stream: bool, until: float, *, final: bool) -> Verdict:
        failed = time.monotonic()
        async with self._lock:
            self._hindered = False
            if self._outage.outage:
                return self._outage
            if self._good_since > failed:
                return _WORKS
            if self._left <= 0 and not final:
                return _UNKNOWN
            self._left -= 1
            began = time.monotonic()
            seen = await self._look(dialect, stream, until)
            if seen is not None and not seen.ok:
                seen = await self._look_alone(seen, dialect, stream, until, final=final)
            if seen is None:
                return _UNKNOWN
            if seen.ok:
                self._good_since = began
                self._last.note()
                return _WORKS
            shown = f"our own known-good request was not answered either ({seen.said})"
            self._outage = Verdict(False, shown)
            if is_used_up(seen.status, seen.said) and self._provider in self._traffic.answered:
                of_money = seen.status == 402 or is_out_of_money(seen.said)
                self._outage = Verdict(False, shown, USED_UP if of_money else RATE_USED_UP)
            return self._outage

    async def _look_alone(
        self, first: Probed, dialect: Dialect, stream: bool, until: float, *, final: bool
    ) -> Probed | None:
        """A second probe, in silence: what the cell's own traffic causes is not evidence of anything."""
        limited = first.status == 429 and not is_out_of_money(first.said)
        silence = self._patience.quiet_s if limited else min(_BREATH_S, self._patience.quiet_s)
        with self._traffic.held():
            began = time.monotonic()
            if final:
                await asyncio.sleep(silence)
            elif not await self._traffic.quiet(silence, min(until, began + 2 * silence + self._patience.probe_s)):
                return None
            seen = await self._look(dialect, stream, until)
        # Other cells of the run are answered: then it is the run's own rate, or not the provider.
        return None if seen is not None and not seen.ok and self._last.since(began) else seen

    async def _look(self, dialect: Dialect, stream: bool, until: float) -> Probed | None:
        """The provider's answer in this protocol or, if that never worked here, in any that it speaks."""
        first = await self._ask(dialect, stream, until)
        if first is None or first.ok or (dialect, stream) in self._worked:
            return first
        # A model for embeddings refuses conversations; where they fail in another way, embeddings prove nothing.
        refused = first.status in _REFUSED and not is_of_account(first.said)
        others = [it for it in self._dialects if it != dialect and (refused or it != "embeddings")]
        for other in [dialect] * stream + others:
            seen = await self._ask(other, False, until)
            # That another protocol refuses the model says nothing.
            if seen is None or seen.answer is not None:
                return seen
        return first

    async def _ask(self, dialect: Dialect, stream: bool, until: float) -> Probed | None:
        """One probe; None when it may not or can no longer be sent."""
        patience = min(self._patience.probe_s, until - time.monotonic())
        if patience <= 0 or not self._account.hold():
            return None
        stream = stream and dialect in _STREAMED
        data = {
            "model": self._name,
            **_BODIES[dialect],
            **({"stream": True} if stream and dialect != "generate" else {}),
        }
        size = len(json.dumps(data))
        call = Call(dialect, data, size, "", self._name, {}, stream, PROBE_TOKENS)
        began = time.monotonic()
        status, said, ok, answer, ours = 0, "", False, None, False
        async with Lateness.measured() as lateness:
            try:
                async with asyncio.timeout(patience):
                    status, said, answer = await self._sent(call, patience)
                ok = answer is not None or (status in UNDERSTOOD and not is_of_account(said))
            except TimeoutError:
                said = f"no answer within {patience:.3g} s"
            except (BackendError, TransportFault, StreamLost) as error:
                said, ours = str(error), _lacks_room(error)
            except Exception as error:
                said, ours = f"the gateway failed: {type(error).__name__}", _lacks_room(error)
            finally:
                # What was cut off at the end of the cell may be billed all the same.
                probed = Probed(call, ok, status, said or "cut off", round(time.monotonic() - began, 6), answer)
                self._account.settle(probed)
            ours = ours or lateness.seconds > self._patience.late_s
        if not ok and patience < self._patience.probe_s and not status and "no answer" in said:
            # The end of the cell cut it short, and that is not the provider's fault.
            return None
        self._hindered = ours and not ok
        return None if self._hindered else probed

    async def _sent(self, call: Call, timeout_s: float) -> tuple[int, str, Answer | None]:
        response = await self._sender.send(call, call.upstream(self._name, None), timeout_s)
        if response.chunks is not None:
            answer = await _whole_stream(call, response.chunks)
            return 200, "answered", answer
        if response.status == 200:
            read = read_answer(call.dialect, response.content)
            return 200, "answered" if read else "the answer is not of its protocol", read
        text = self._redact(response.content.decode("utf-8", "replace"))
        # What 401 and 403 say may hold parts of the key.
        shown = "" if response.status in (401, 403) else " ".join(text.split())[:_SHOWN]
        return response.status, f"status {response.status} {shown}".rstrip(), None


def _lacks_room(error: BaseException | None) -> bool:
    """Whether memory or descriptors of this machine were at the beginning of an error."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _NO_ROOM):
            return True
        error = error.__cause__ or error.__context__
    return False


async def _whole_stream(call: Call, chunks: AsyncGenerator[bytes, None]) -> Answer:
    """What a stream says; raises `StreamLost` when it breaks."""
    found: list[Answer] = []

    async def keep(answer: Answer, fault: str, gone: bool) -> None:
        found.append(answer)

    settle: Callable[[Answer, str, bool], Awaitable[None]] = keep
    async with aclosing(forward(call, chunks, settle)) as passed:
        async for _ in passed:
            continue
    return found[0]
