"""What the events of a stream say, in each of the protocols."""

from __future__ import annotations

from bench.gateway import google
from bench.gateway.answers import Answer, answer_of, blocks_message, message, parts_message
from bench.gateway.json_values import Json
from bench.gateway.request import Dialect


class StreamReader:
    """Gathers what one stream says."""

    copies = 1
    """How many answers were asked for."""
    told = False
    """The stream itself says that it failed."""
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

    def done(self) -> None:
        """The stream says by `[DONE]` that there is no more to come."""

    def finish(self) -> Answer:
        """What the stream said, whole or not."""
        raise NotImplementedError


class _Chat(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._thoughts: list[str] = []
        self._calls: dict[int, list[Json]] = {}
        """Place of a call -> the calls there, which some servers give the same place."""

    def take(self, event: Json) -> None:
        answer = self.answer
        answer.model = str(event.get("model") or answer.model)
        answer.id = str(event.get("id") or answer.id)
        answer.usage = event.get("usage") or answer.usage
        answer.tier = str(event.get("service_tier") or answer.tier)
        self.told = self.told or bool(event.get("error"))
        for choice in _objects(event.get("choices")):
            if choice.get("finish_reason"):
                answer.finish_reason = str(choice["finish_reason"])
                answer.complete = True
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._grow(delta, first=choice.get("index") in (0, None))

    def done(self) -> None:
        # Not every server says for what reason an answer ends.
        self.answer.complete = self.answer.complete or not self.told

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
            identity, name = str(piece.get("id") or ""), str(function.get("name") or "")
            position = piece.get("index")
            there = self._calls.setdefault(position if isinstance(position, int) else 0, [])
            if not there or (identity and name and there[-1]["id"] not in ("", identity)):
                there.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
            call = there[-1]
            call["id"] = call["id"] or identity
            call["function"]["name"] += name
            call["function"]["arguments"] += given

    def finish(self) -> Answer:
        calls = [call for position in sorted(self._calls) for call in self._calls[position]]
        self.answer.message = message("".join(self._texts), calls, "".join(self._thoughts))
        return self.answer


class _Responses(StreamReader):
    def __init__(self) -> None:
        super().__init__()
        self._size = 0

    def take(self, event: Json) -> None:
        kind = event.get("type")
        response = event.get("response")
        self.told = self.told or kind in ("error", "response.failed")
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
            self.answer.complete, self.told = False, True
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
        self._begun = False
        """Some candidate has come."""

    def take(self, event: Json) -> None:
        answer = self.answer
        answer.model = str(event.get("modelVersion") or answer.model)
        answer.id = str(event.get("responseId") or answer.id)
        answer.usage = event.get("usageMetadata") or answer.usage
        self.told = self.told or bool(event.get("error"))
        first, others = google.candidate_parts(event), google.candidate_parts(event, first=False)
        self._parts += first
        for part in (*first, *others):
            given = part.get("text") if isinstance(part.get("text"), str) else (google.function_call(part) or [""])[-1]
            answer.text_size += len(str(given).encode("utf-8", "replace"))
        for index, reason in google.finished(event):
            self._ended.add(str(index))
            answer.finish_reason = answer.finish_reason or reason
        self._begun = self._begun or bool(event.get("candidates"))
        # Gemini may say nothing at all, and count it.
        silent = bool(answer.usage) and not (self._begun or self.told)
        answer.complete = bool(self._ended) or silent
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
