"""Scripted models: `replay/@answers` says one sentence to every request, `replay/@refuses` meets each with a limit.

They need no key, no network and no cassette, so an agent's start, task, gateway, limits and end can be seen anywhere.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable

from bench.formats.seeds import REPLAY_PREFIX
from bench.gateway.answers import Answer, read_answer
from bench.gateway.backends import BackendError, CallHistory, Headers, Response
from bench.gateway.json_values import Json
from bench.gateway.prices import OwnRates, Prices
from bench.gateway.request import Call
from bench.gateway.usage import Rule, rule_of

ANSWERS, REFUSES = f"{REPLAY_PREFIX}@answers", f"{REPLAY_PREFIX}@refuses"
"""Names that no set of cassettes can have."""
SENTENCE = "I have nothing to add: this model is scripted and says the same sentence to every request."
_INPUT, _OUTPUT = 10, 20
"""Tokens that every answer claims."""
_DIMENSIONS = 8
_ID = "scripted-1"
_JSON: Headers = [("Content-Type", "application/json")]
_EVENTS: Headers = [("Content-Type", "text/event-stream; charset=utf-8")]


def is_scripted(model: str) -> bool:
    return model in (ANSWERS, REFUSES)


def scripted_prices() -> Prices:
    """Nothing is billed, and the price is known, so that limits of cost can be kept."""
    return OwnRates(input=0, output=0).as_prices("scripted")


class ScriptedBackend:
    """Answers every protocol, streams included."""

    def __init__(self, model: str) -> None:
        self.name = model

    def rule(self, call: Call) -> Rule:
        return rule_of(call.dialect)

    async def answer(self, call: Call, body: Json, history: CallHistory) -> Response:
        if self.name == REFUSES and call.counts_as_step:
            why = "limit of 0 steps reached: this model is scripted to refuse"
            raise BackendError(402, "budget_exceeded", why, infra=False, limit="step_limit")
        if call.stream and call.counts_as_step:
            return Response(200, _EVENTS, chunks=_in_pieces(_STREAMS[call.dialect](call.model)))
        content = json.dumps(_WHOLE[call.dialect](call)).encode("ascii")
        return Response(200, _JSON, content, answer=_named(read_answer(call.dialect, content), self.name))

    def answered(self, call: Call) -> None:
        """A script cannot fail."""

    async def outage(self) -> str:
        return ""

    async def close(self) -> None:
        """Nothing is held open."""


def _named(answer: Answer | None, name: str) -> Answer | None:
    if answer is not None and answer.model:
        answer.model = name
    return answer


async def _in_pieces(parts: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
    for part in parts:
        yield part


def _chat_usage() -> Json:
    return {"prompt_tokens": _INPUT, "completion_tokens": _OUTPUT, "total_tokens": _INPUT + _OUTPUT}


def _chat(call: Call) -> Json:
    message = {"role": "assistant", "content": SENTENCE}
    return {
        "id": _ID, "object": "chat.completion", "created": 0, "model": call.model, "usage": _chat_usage(),
        "choices": [{"index": at, "message": message, "finish_reason": "stop", "logprobs": None}
                    for at in range(call.copies)],
    }  # fmt: skip


def _chat_events(model: str) -> Iterable[bytes]:
    base: Json = {"id": _ID, "object": "chat.completion.chunk", "created": 0, "model": model, "usage": None}
    for delta, end in (({"role": "assistant", "content": SENTENCE}, None), ({}, "stop")):
        yield _data({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
    yield _data({**base, "choices": [], "usage": _chat_usage()})
    yield b"data: [DONE]\n\n"


def _messages_usage(output: int) -> Json:
    return {"input_tokens": _INPUT, "output_tokens": output}


def _messages(call: Call) -> Json:
    return {
        "id": _ID, "type": "message", "role": "assistant", "model": call.model, "stop_reason": "end_turn",
        "stop_sequence": None, "content": [{"type": "text", "text": SENTENCE}], "usage": _messages_usage(_OUTPUT),
    }  # fmt: skip


def _messages_events(model: str) -> Iterable[bytes]:
    start: Json = {
        "id": _ID, "type": "message", "role": "assistant", "model": model, "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": _messages_usage(1),
    }  # fmt: skip
    yield from _typed(
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SENTENCE}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": _OUTPUT}},
        {"type": "message_stop"},
    )  # fmt: skip


def _responses_item(text: str, status: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content}


def _responses_body(model: str, status: str, output: list[Json]) -> Json:
    usage = {
        "input_tokens": _INPUT, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": _OUTPUT,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": _INPUT + _OUTPUT,
    }  # fmt: skip
    return {
        "id": _ID, "object": "response", "created_at": 0, "status": status, "model": model, "output": output,
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
        "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }  # fmt: skip


def _responses(call: Call) -> Json:
    return _responses_body(call.model, "completed", [_responses_item(SENTENCE, "completed")])


def _responses_events(model: str) -> Iterable[bytes]:
    begun, done = _responses_item("", "in_progress"), _responses_item(SENTENCE, "completed")
    part = {"type": "output_text", "text": SENTENCE, "annotations": []}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[Json] = [
        {"type": "response.created", "response": _responses_body(model, "in_progress", [])},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **at, "delta": SENTENCE, "logprobs": []},
        {"type": "response.output_text.done", **at, "text": SENTENCE, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": _responses_body(model, "completed", [done])},
    ]
    return _typed(*({**event, "sequence_number": number} for number, event in enumerate(events)))


def _count(call: Call) -> Json:
    del call
    return {"input_tokens": _INPUT}


def _count_generate(call: Call) -> Json:
    del call
    return {"totalTokens": _INPUT}


def _generate_body(model: str, copies: int = 1) -> Json:
    content = {"role": "model", "parts": [{"text": SENTENCE}]}
    usage = {"promptTokenCount": _INPUT, "candidatesTokenCount": _OUTPUT, "totalTokenCount": _INPUT + _OUTPUT}
    candidates = [{"content": content, "finishReason": "STOP", "index": at} for at in range(copies)]
    return {"candidates": candidates, "usageMetadata": usage, "modelVersion": model, "responseId": _ID}


def _generate(call: Call) -> Json:
    return _generate_body(call.model, call.copies)


def _generate_events(model: str) -> Iterable[bytes]:
    yield _data(_generate_body(model))


def _embeddings(call: Call) -> Json:
    vector = [1.0] + [0.0] * (_DIMENSIONS - 1)
    found = [{"object": "embedding", "index": at, "embedding": vector} for at in range(len(call.items))]
    usage = {"prompt_tokens": _INPUT, "total_tokens": _INPUT}
    return {"object": "list", "data": found, "model": call.model, "usage": usage}


_WHOLE = {
    "chat": _chat, "messages": _messages, "responses": _responses, "count_tokens": _count, "embeddings": _embeddings,
    "generate": _generate, "count_generate": _count_generate,
}  # fmt: skip
_STREAMS = {"chat": _chat_events, "messages": _messages_events, "responses": _responses_events,
            "generate": _generate_events}  # fmt: skip


def _data(document: Json) -> bytes:
    return b"data: " + json.dumps(document).encode("ascii") + b"\n\n"


def _typed(*events: Json) -> Iterable[bytes]:
    for event in events:
        yield f"event: {event['type']}\n".encode() + _data(event)
