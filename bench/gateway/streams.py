"""Server-sent events on their way: split, read for usage and content, and passed on as they are."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from functools import partial

from bench.formats.model_usage import Tokens
from bench.gateway.answers import Answer
from bench.gateway.json_values import Json, read_shallow
from bench.gateway.request import Call
from bench.gateway.stream_readers import READERS, StreamReader

_END_OF_EVENT = re.compile(rb"\r?\n\r?\n")
_NO_USAGE = re.compile(rb',\s*"usage"\s*:\s*null')
# Of the blank line after an event, which may come in two pieces.
_LONGEST_END = 4
_MOST_HELD = 20_000_000
_LAST_EVENTS = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})


class StreamLost(Exception):
    """A stream broke after its first bytes, or is not of its protocol."""


class Events:
    """Cuts a stream of bytes into events, each with its blank line."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._seen = 0
        """Bytes of `_held` in which no event ends."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        self._held += chunk
        while end := _END_OF_EVENT.search(self._held, self._seen):
            event = bytes(self._held[: end.end()])
            del self._held[: len(event)]
            self._seen = 0
            yield event
        self._seen = max(len(self._held) - _LONGEST_END, 0)
        if len(self._held) > _MOST_HELD:
            raise StreamLost("an event of the stream is too large")

    def rest(self) -> bytes:
        """What came after the last whole event."""
        held, self._held = bytes(self._held), bytearray()
        return held


def event_data(event: bytes) -> Json | None:
    """The JSON object of one event; None for comments, `[DONE]` and anything else."""
    lines = [line[5:].lstrip(b" ") for line in event.splitlines() if line.startswith(b"data:")]
    try:
        data = read_shallow(b"\n".join(lines).decode("utf-8")) if lines else None
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def without_usage(event: bytes, data: Json | None) -> bytes:
    """A chat event as it would be if usage had not been asked for."""
    if data is None or "usage" not in data:
        return event
    if data["usage"] is None:
        return _NO_USAGE.sub(b"", event)
    return b"" if not data.get("choices") else event


async def forward(
    call: Call, chunks: AsyncGenerator[bytes, None], settle: Callable[[Answer, str, bool], Awaitable[None]]
) -> AsyncGenerator[bytes, None]:
    """Pass on `chunks`; raises `StreamLost` when the stream breaks, so that the client's connection is cut, too.

    For a client that is gone the rest is read, too: the provider bills it all the same, and says so at the end.
    settle: told once what the stream said, by what fault it ended, and whether the client was gone before. A stream
    that is cancelled is not settled. One that breaks after its last word is whole, as some of litellm's do.
    """
    reader = READERS[call.dialect]()
    reader.copies = call.copies
    events = Events()
    take = partial(_take, reader, call.dialect == "chat" and not call.wants_stream_usage())
    gone = settled = whole = False

    async def end(fault: str) -> None:
        nonlocal settled, whole
        if not settled:
            settled = True
            await settle(reader.finish(), fault, gone)
            whole = not fault

    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                passed = bytearray()
                for event in events.feed(chunk):
                    kept, last = take(event)
                    if last:
                        # The agent may be gone a moment after this event, and the call must be on record by then.
                        await end(reader.fault)
                    passed += kept
                if passed and not gone:
                    try:
                        yield bytes(passed)
                    except GeneratorExit:
                        gone = True
        # Some servers leave out the blank line after their last event, with which they say what they counted.
        rest, _ = take(events.rest())
        await end(reader.fault)
        if rest and not gone:
            yield rest
        # A client that was told of the fault reads an end as it is meant; one that was not would take it for an answer.
        if reader.fault and not reader.told:
            raise StreamLost("the upstream's stream ended early")
    except Exception:
        await end("stream_broken")
        if not (gone or whole):
            raise


def _take(reader: StreamReader, strip: bool, event: bytes) -> tuple[bytes, bool]:
    """Have `event` read; what of it is passed on, and whether it takes the last word."""
    data = event_data(event)
    if data is not None:
        reader.take(data)
    elif _is_done(event):
        reader.done()
    return without_usage(event, data) if strip else event, reader.over or _is_last(event, data)


def estimate(call: Call, answer: Answer, known: Tokens | None) -> Tokens:
    """What an answer probably used whose provider did not say, or not to the end."""
    output = answer.text_size // 3 + 1
    if known is not None:
        return known.model_copy(update={"output": max(known.output or 0, output)})
    return Tokens(input_uncached=call.likely_input, output=output)


def _is_done(event: bytes) -> bool:
    return event.strip() in (b"data: [DONE]", b"data:[DONE]")


def _is_last(event: bytes, data: Json | None) -> bool:
    if data is None:
        return _is_done(event)
    kind = data.get("type")
    return isinstance(kind, str) and kind in _LAST_EVENTS
