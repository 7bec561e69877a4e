"""A stream on its way through: bytes unaltered, usage read, settled before the client sees the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from bench.gateway.answers import Answer
from bench.gateway.protocol import Call, Json
from bench.gateway.source import StreamLost
from bench.gateway.streams import Events, StreamFault, StreamReader, event_data, open_reader, without_usage
from bench.record import Tokens

_LAST_EVENTS = frozenset({"message_stop", "response.completed", "response.incomplete", "response.failed"})


@dataclass
class Ending:
    """Settles a stream once, whichever way it ends."""

    settle: Callable[[Answer, str], Awaitable[None]]
    done: bool = False

    async def come(self, reader: StreamReader, fault: str) -> None:
        if not self.done:
            self.done = True
            await self.settle(reader.finish(), fault)


async def relay(call: Call, chunks: AsyncGenerator[bytes, None], ending: Ending) -> AsyncGenerator[bytes, None]:
    """Pass on `chunks`; raises `StreamLost` when the stream breaks, so that the client's connection is cut, too."""
    reader = open_reader(call.dialect)
    events = Events()
    strip = call.dialect == "chat" and not call.wants_stream_usage()
    fault = "client_gone"
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                passed = bytearray()
                for event in events.feed(chunk):
                    data = event_data(event)
                    if data is not None:
                        reader.take(data)
                    if _is_last(event, data):
                        # The agent may be gone a moment after this event, and the call must be on record by then.
                        await ending.come(reader, "" if reader.answer.complete else "stream_broken")
                    passed += without_usage(event, data) if strip else event
                if passed:
                    yield bytes(passed)
        rest = events.rest()
        await ending.come(reader, "" if reader.answer.complete else "stream_broken")
        if rest:
            yield rest
        if not reader.answer.complete:
            raise StreamLost("stream_broken", "the upstream's stream ended early")
    except (StreamLost, StreamFault):
        fault = "stream_broken"
        raise
    finally:
        await ending.come(reader, fault)


def estimate(call: Call, answer: Answer, known: Tokens | None) -> Tokens:
    """What an answer probably used whose provider did not say, or not to the end."""
    output = answer.text_size // 3 + 1
    if known is not None:
        return known.model_copy(update={"output": max(known.output or 0, output)})
    return Tokens(input_uncached=call.likely_input, output=output)


def _is_last(event: bytes, data: Json | None) -> bool:
    if data is None:
        return event.strip() in (b"data: [DONE]", b"data:[DONE]")
    kind = data.get("type")
    return isinstance(kind, str) and kind in _LAST_EVENTS
