"""How a scripted answer looks on the wire in each of the four protocols, streamed and whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
_PIECE = 16


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer in normalised terms: `input` leaves out everything that has to do with caches."""

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    """Part of `output`."""

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: Json | str
    """A plain string plays a model that writes broken JSON, or is the input of a custom tool."""
    custom: bool = False
    """Of a tool without a schema, which only the responses protocol has."""
    namespace: str = ""
    """Of a group of tools, which only the responses protocol has."""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Reply:
    """One answer of the upstream. Everything after `usage` plays a fault or an oddity."""

    text: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: Usage = Usage()
    thinking: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    error: str = "the upstream refuses"
    """Message of an answer whose status is not 200."""
    hang_s: float = 0.0
    """Wait before answering."""
    cut: float | None = None
    """End the connection after this share of the body."""
    slow_after: int | None = None
    """After so many events of a stream each waits 20 ms."""
    raw: bytes | None = None
    """This body instead of a well-formed one."""
    wrong_usage: Any = None
    """This instead of the usage object."""


def whole(protocol: str, reply: Reply, number: int, model: str) -> Json:
    """The body of an answer that is not streamed."""
    return {"chat": _chat, "responses": _responses, "messages": _messages, "generate": _generate}[protocol](
        reply, number, model
    )


def events(protocol: str, reply: Reply, number: int, request: Json) -> Iterator[bytes]:
    """The server-sent events of a streamed answer."""
    model = str(request.get("model"))
    if protocol == "chat":
        asked = bool((request.get("stream_options") or {}).get("include_usage"))
        yield from _chat_events(reply, number, model, asked)
    elif protocol == "responses":
        yield from _responses_events(reply, number, model)
    elif protocol == "generate":
        yield from _generate_events(reply, number, model)
    else:
        yield from _messages_events(reply, number, model)


def fault(protocol: str, reply: Reply) -> Json:
    """An error in the protocol's own spelling."""
    if protocol in ("generate", "count_generate"):
        return {"error": {"code": reply.status, "message": reply.error, "status": "UNAVAILABLE"}}
    if protocol in ("messages", "count_tokens"):
        return {"type": "error", "error": {"type": "api_error", "message": reply.error}}
    return {"error": {"message": reply.error, "type": "server_error", "code": None, "param": None}}


def chat_usage(reply: Reply) -> Any:
    if reply.wrong_usage is not None:
        return reply.wrong_usage
    usage = reply.usage
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


def _chat(reply: Reply, number: int, model: str) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": f"call_{number}_{i}", "type": "function", "function": {"name": it.name, "arguments": it.text}}
            for i, it in enumerate(reply.tool_calls)
        ]
    finish = "tool_calls" if reply.tool_calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": chat_usage(reply),
    }


def _chat_events(reply: Reply, number: int, model: str, asked: bool) -> Iterator[bytes]:
    base = {
        "id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model,
    }  # fmt: skip
    extra: Json = {"usage": None} if asked else {}

    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _data({**base, "choices": [choice], **extra})

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(reply.text):
        yield chunk({"content": piece})
    for i, call in enumerate(reply.tool_calls):
        start = {"index": i, "id": f"call_{number}_{i}", "type": "function"}
        yield chunk({"tool_calls": [{**start, "function": {"name": call.name, "arguments": ""}}]})
        for piece in _pieces(call.text):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if reply.tool_calls else "stop")
    if asked:
        yield _data({**base, "choices": [], "usage": chat_usage(reply)})
    yield b"data: [DONE]\n\n"


def responses_usage(reply: Reply) -> Any:
    if reply.wrong_usage is not None:
        return reply.wrong_usage
    usage = reply.usage
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.output,
    }


def _output_items(reply: Reply, number: int) -> list[Json]:
    items: list[Json] = []
    if reply.text or not reply.tool_calls:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant"}
        items.append({**message, "content": [part]})
    for i, call in enumerate(reply.tool_calls):
        if call.custom:
            said = {"call_id": f"call_{number}_{i}", "name": call.name, "input": call.text}
            items.append({"id": f"ctc_{number}_{i}", "type": "custom_tool_call", "status": "completed", **said})
            continue
        items.append(
            {
                "id": f"fc_{number}_{i}",
                "type": "function_call",
                "status": "completed",
                "call_id": f"call_{number}_{i}",
                "name": call.name,
                "arguments": call.text,
                **({"namespace": call.namespace} if call.namespace else {}),
            }
        )
    return items


def _responses(reply: Reply, number: int, model: str) -> Json:
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 1_700_000_000, "status": "completed",
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "model": model,
        "output": _output_items(reply, number), "parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0,
        "tool_choice": "auto", "tools": [], "usage": responses_usage(reply),
    }  # fmt: skip


def _responses_events(reply: Reply, number: int, model: str) -> Iterator[bytes]:
    final = _responses(reply, number, model)
    opened = {**final, "status": "in_progress", "output": [], "usage": None}
    count = -1

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal count
        count += 1
        return _event(kind, {"type": kind, "sequence_number": count, **fields})

    yield event("response.created", response=opened)
    for index, item in enumerate(final["output"]):
        where = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            part = item["content"][0]
            empty = {**item, "status": "in_progress", "content": []}
            yield event("response.output_item.added", output_index=index, item=empty)
            yield event("response.content_part.added", **where, content_index=0, part={**part, "text": ""})
            for piece in _pieces(part["text"]):
                yield event("response.output_text.delta", **where, content_index=0, delta=piece, logprobs=[])
            yield event("response.output_text.done", **where, content_index=0, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **where, content_index=0, part=part)
        elif item["type"] == "custom_tool_call":
            begun = {**item, "status": "in_progress", "input": ""}
            yield event("response.output_item.added", output_index=index, item=begun)
            for piece in _pieces(item["input"]):
                yield event("response.custom_tool_call_input.delta", **where, delta=piece)
            yield event("response.custom_tool_call_input.done", **where, input=item["input"])
        else:
            begun = {**item, "status": "in_progress", "arguments": ""}
            yield event("response.output_item.added", output_index=index, item=begun)
            for piece in _pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **where, delta=piece)
            said = {"name": item["name"], "arguments": item["arguments"]}
            yield event("response.function_call_arguments.done", **where, **said)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=final)


def messages_usage(reply: Reply) -> Any:
    if reply.wrong_usage is not None:
        return reply.wrong_usage
    usage = reply.usage
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write_5m + usage.cache_write_1h,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_5m,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "output_tokens": usage.output,
        "service_tier": "standard",
    }


def _blocks(reply: Reply, number: int) -> list[Json]:
    blocks: list[Json] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmVk"})
    if reply.text or not reply.tool_calls:
        blocks.append({"type": "text", "text": reply.text})
    for i, call in enumerate(reply.tool_calls):
        given = call.arguments if isinstance(call.arguments, dict) else {"raw": call.arguments}
        blocks.append({"type": "tool_use", "id": f"toolu_{number}_{i}", "name": call.name, "input": given})
    return blocks


def _messages(reply: Reply, number: int, model: str) -> Json:
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": model,
        "content": _blocks(reply, number), "stop_reason": "tool_use" if reply.tool_calls else "end_turn",
        "stop_sequence": None, "usage": messages_usage(reply),
    }  # fmt: skip


def _messages_events(reply: Reply, number: int, model: str) -> Iterator[bytes]:
    final = _messages(reply, number, model)
    usage = final["usage"]
    first = {**usage, "output_tokens": 1} if reply.wrong_usage is None else usage
    yield _named(type="message_start", message={**final, "content": [], "stop_reason": None, "usage": first})
    yield _named(type="ping")
    for index, block in enumerate(final["content"]):
        kind = block["type"]
        if kind == "text":
            empty, deltas = {**block, "text": ""}, [{"type": "text_delta", "text": it} for it in _pieces(block["text"])]
        elif kind == "thinking":
            empty = {**block, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": it} for it in _pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            empty = {**block, "input": {}}
            text = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": it} for it in _pieces(text)]
        yield _named(type="content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _named(type="content_block_delta", index=index, delta=delta)
        yield _named(type="content_block_stop", index=index)
    last = {"output_tokens": reply.usage.output} if reply.wrong_usage is None else usage
    ending = {"stop_reason": final["stop_reason"], "stop_sequence": None}
    yield _named(type="message_delta", delta=ending, usage=last)
    yield _named(type="message_stop")


def generate_usage(reply: Reply) -> Any:
    if reply.wrong_usage is not None:
        return reply.wrong_usage
    usage = reply.usage
    made = {"promptTokenCount": usage.prompt, "candidatesTokenCount": usage.output - usage.reasoning}
    made |= {"cachedContentTokenCount": usage.cache_read} if usage.cache_read else {}
    made |= {"thoughtsTokenCount": usage.reasoning} if usage.reasoning else {}
    return {**made, "totalTokenCount": usage.prompt + usage.output}


def _generate(reply: Reply, number: int, model: str, *, text: str | None = None, last: bool = True) -> Json:
    parts: list[Json] = [{"text": reply.thinking, "thought": True}] if reply.thinking and last else []
    said = reply.text if text is None else text
    parts += [{"text": said}] if said else []
    for i, call in enumerate(reply.tool_calls if last else []):
        given = call.arguments if isinstance(call.arguments, dict) else {"raw": call.arguments}
        parts.append({"functionCall": {"id": f"fc_{number}_{i}", "name": call.name, "args": given}})
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if last:
        candidate["finishReason"] = "STOP"
    known = {"modelVersion": model, "responseId": f"resp_{number}"}
    return {"candidates": [candidate], "usageMetadata": generate_usage(reply), **known}


def _generate_events(reply: Reply, number: int, model: str) -> Iterator[bytes]:
    for piece in _pieces(reply.text):
        early = _generate(reply, number, model, text=piece, last=False)
        # Counts are running totals: those of an early event are not the bill.
        yield _google_data({**early, "usageMetadata": {"promptTokenCount": reply.usage.prompt}})
    yield _google_data(_generate(reply, number, model, text=""))


def _google_data(data: Json) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\r\n\r\n"


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def _named(**fields: Any) -> bytes:
    return _event(str(fields["type"]), fields)


def _event(name: str, data: Json) -> bytes:
    return f"event: {name}\n".encode() + _data(data)


def _data(data: Json) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
