"""Server-sent events on their way: split, read for usage and content, and passed on as they are."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing

from bench.formats.model_usage import Tokens
from bench.gateway import google
from bench.gateway.answers import Answer, answer_of, blocks_message, message, parts_message
from bench.gateway.request import Call, Dialect, Json, shallow


class StreamReader:
    """Gathers what one stream says."""

    copies = 1
    """How many answers were asked for."""
    over = False
    """The last event took the last word, where the events of a protocol do not say so by their type."""

    def __init__(self) -> None:
        self.answer = Answer(complete=False)
        self._texts: list[str] = []

    @property
    def fault(self) -> str:
        """The fault of a stream that would end now."""
        return "" if self.answer.complete else "stream_broken"

    def take(self, event: Json) -> None:
        raise NotImplementedError

    def finish(self) -> Answer:
        """What the stream said, whole or not."""
        raise NotImplementedError


class _Chat(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._thoughts: list[str] = []
        self._calls: dict[int, Json] = {}

    def take(self, event: Json) -> None:
        answer = self.answer
        answer.model = str(event.get("model") or answer.model)
        answer.id = str(event.get("id") or answer.id)
        answer.usage = event.get("usage") or answer.usage
        for choice in _objects(event.get("choices")):
            if choice.get("finish_reason"):
                answer.finish_reason = str(choice["finish_reason"])
                answer.complete = True
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._grow(delta, first=choice.get("index") in (0, None))

    def _grow(self, delta: Json, *, first: bool) -> None:
        for name, parts in (("content", self._texts), ("reasoning_content", self._thoughts)):
            text = delta.get(name)
            if isinstance(text, str):
                self.answer.text_size += len(text.encode("utf-8", "replace"))
                if first:
                    parts.append(text)
        for piece in _objects(delta.get("tool_calls")):
            function = piece.get("function")
            function = function if isinstance(function, dict) else {}
            given = str(function.get("arguments") or "")
            self.answer.text_size += len(given.encode("utf-8", "replace"))
            if not first:
                continue
            position = piece.get("index")
            empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            call = self._calls.setdefault(position if isinstance(position, int) else 0, empty)
            call["id"] = call["id"] or str(piece.get("id") or "")
            call["function"]["name"] += str(function.get("name") or "")
            call["function"]["arguments"] += given

    def finish(self) -> Answer:
        calls = [self._calls[position] for position in sorted(self._calls)]
        self.answer.message = message("".join(self._texts), calls, "".join(self._thoughts))
        return self.answer


class _Responses(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._size = 0

    def take(self, event: Json) -> None:
        kind = event.get("type")
        response = event.get("response")
        if isinstance(response, dict):
            if kind in ("response.completed", "response.incomplete", "response.failed"):
                self.answer = answer_of("responses", response) or self.answer
                self.answer.complete = kind != "response.failed"
            else:
                self.answer.id = str(response.get("id") or self.answer.id)
                self.answer.model = str(response.get("model") or self.answer.model)
        delta = event.get("delta")
        if isinstance(delta, str):
            self._size += len(delta.encode("utf-8", "replace"))
            if kind == "response.output_text.delta":
                self._texts.append(delta)

    def finish(self) -> Answer:
        self.answer.text_size = self.answer.text_size or self._size
        if not self.answer.message:
            self.answer.message = message("".join(self._texts), [])
        return self.answer


class _Messages(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, Json] = {}
        self._grown: dict[int, tuple[str, list[str]]] = {}
        """What grows in a block, and its pieces."""

    def take(self, event: Json) -> None:
        kind = event.get("type")
        if kind == "message_start" and isinstance(event.get("message"), dict):
            begun = event["message"]
            self.answer.model, self.answer.id = str(begun.get("model") or ""), str(begun.get("id") or "")
            self.answer.usage = begun.get("usage")
        elif kind == "message_delta":
            delta, usage = event.get("delta"), event.get("usage")
            if isinstance(delta, dict) and delta.get("stop_reason"):
                self.answer.finish_reason = str(delta["stop_reason"])
                self.answer.complete = True
            if isinstance(usage, dict) and isinstance(self.answer.usage, dict):
                # Counts here are running totals; those it leaves out keep their first value.
                known = {name: value for name, value in usage.items() if value is not None}
                self.answer.usage = {**self.answer.usage, **known}
        elif kind == "error":
            self.answer.complete = False
        else:
            self._grow(event)

    def _grow(self, event: Json) -> None:
        index, block, delta = event.get("index"), event.get("content_block"), event.get("delta")
        if not isinstance(index, int):
            return
        if isinstance(block, dict):
            self._blocks[index] = dict(block)
        if not isinstance(delta, dict):
            return
        self._blocks.setdefault(index, {})
        for name in ("text", "thinking", "partial_json"):
            piece = delta.get(name)
            if isinstance(piece, str):
                self.answer.text_size += len(piece.encode("utf-8", "replace"))
                _, pieces = self._grown.get(index, ("", []))
                pieces.append(piece)
                self._grown[index] = (name, pieces)

    def finish(self) -> Answer:
        for index, (name, pieces) in self._grown.items():
            self._blocks[index]["input" if name == "partial_json" else name] = "".join(pieces)
        self.answer.message = blocks_message([self._blocks[index] for index in sorted(self._blocks)])
        return self.answer


class _Google(StreamReader):
    """Each event is an answer of its own form with what is new; counts are running totals."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Json] = []
        self._ended: set[str] = set()

    def take(self, event: Json) -> None:
        answer = self.answer
        answer.model = str(event.get("modelVersion") or answer.model)
        answer.id = str(event.get("responseId") or answer.id)
        answer.usage = event.get("usageMetadata") or answer.usage
        first, others = google.candidate_parts(event), google.candidate_parts(event, first=False)
        self._parts += first
        for part in (*first, *others):
            given = part.get("text") if isinstance(part.get("text"), str) else (google.function_call(part) or [""])[-1]
            answer.text_size += len(str(given).encode("utf-8", "replace"))
        for index, reason in google.finished(event):
            self._ended.add(str(index))
            answer.finish_reason = answer.finish_reason or reason
        answer.complete = bool(self._ended)
        # Whoever leaves the counts for a later event has not said the last word.
        self.over = len(self._ended) >= self.copies and isinstance(event.get("usageMetadata"), dict)

    def finish(self) -> Answer:
        self.answer.message = parts_message(self._parts)
        return self.answer


READERS: dict[Dialect, type[StreamReader]] = {
    "chat": _Chat, "responses": _Responses, "messages": _Messages, "generate": _Google,
}  # fmt: skip


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


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
        data = json.loads(b"\n".join(lines).decode("utf-8")) if lines else None
    except (ValueError, RecursionError):
        return None
    return shallow(data) if isinstance(data, dict) else None


def without_usage(event: bytes, data: Json | None) -> bytes:
    """A chat event as it would be if usage had not been asked for."""
    if data is None or "usage" not in data:
        return event
    if data["usage"] is None:
        return _NO_USAGE.sub(b"", event)
    return b"" if not data.get("choices") else event


async def forward(
    call: Call, chunks: AsyncGenerator[bytes, None], settle: Callable[[Answer, str], Awaitable[None]]
) -> AsyncGenerator[bytes, None]:
    """Pass on `chunks`; raises `StreamLost` when the stream breaks, so that the client's connection is cut, too.

    settle: told once what the stream said and by what fault it ended, whichever way it ends.
    """
    reader = READERS[call.dialect]()
    reader.copies = call.copies
    events = Events()
    strip = call.dialect == "chat" and not call.wants_stream_usage()
    fault = "client_gone"
    settled = False

    async def end(fault: str) -> None:
        nonlocal settled
        if not settled:
            settled = True
            await settle(reader.finish(), fault)

    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                passed = bytearray()
                for event in events.feed(chunk):
                    data = event_data(event)
                    if data is not None:
                        reader.take(data)
                    if reader.over or _is_last(event, data):
                        # The agent may be gone a moment after this event, and the call must be on record by then.
                        await end(reader.fault)
                    passed += without_usage(event, data) if strip else event
                if passed:
                    yield bytes(passed)
        rest = events.rest()
        await end(reader.fault)
        if rest:
            yield rest
        if reader.fault:
            raise StreamLost("the upstream's stream ended early")
    except StreamLost:
        fault = "stream_broken"
        raise
    finally:
        await end(fault)


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
