"""Google's generateContent for models of other providers: translated to a chat completion, and the answer back again.

Of a request goes over what a chat has: words, images, calls of functions and their results, functions, temperature,
stops, thinking's effort and a JSON answer. The usage that comes back is the chat's, in Google's fields.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from bench.formats.model_usage import Tokens
from bench.gateway import google
from bench.gateway.backends import Response, TransportFault
from bench.gateway.json_values import Json
from bench.gateway.request import Call
from bench.gateway.stream_readers import READERS
from bench.gateway.streams import Events, event_data
from bench.gateway.usage import Rule, normalise

_SETTINGS = {
    "temperature": "temperature", "topP": "top_p", "stopSequences": "stop", "seed": "seed", "candidateCount": "n",
    "maxOutputTokens": "max_completion_tokens", "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}  # fmt: skip
_CHOICES = {"ANY": "required", "NONE": "none", "AUTO": "auto", "VALIDATED": "auto"}
_EFFORTS = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high"}
_REASONS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_EVENTS = [("content-type", "text/event-stream; charset=utf-8")]


def as_chat(call: Call, body: Json) -> tuple[Call, Json]:
    """The same request as a chat completion: the call, and the body to send."""
    data: Json = {"model": body["model"], "messages": _messages(body)}
    config = body.get("generationConfig") or {}
    data |= {theirs: config[ours] for ours, theirs in _SETTINGS.items() if config.get(ours) is not None}
    thinking = config.get("thinkingConfig")
    effort = str(thinking.get("thinkingLevel", "")).lower() if isinstance(thinking, dict) else ""
    if effort in _EFFORTS:
        data["reasoning_effort"] = _EFFORTS[effort]
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    if isinstance(schema, dict):
        named = {"name": "answer", "schema": _schema(schema)}
        data["response_format"] = {"type": "json_schema", "json_schema": named}
    elif config.get("responseMimeType") == "application/json":
        data["response_format"] = {"type": "json_object"}
    if tools := [_tool(it) for tool in _dicts(body.get("tools")) for it in _dicts(tool.get("functionDeclarations"))]:
        data["tools"] = tools
        settings = body.get("toolConfig")
        calling = settings.get("functionCallingConfig") if isinstance(settings, dict) else None
        choice = _CHOICES.get(str(calling.get("mode")).upper()) if isinstance(calling, dict) else None
        data |= {"tool_choice": choice} if choice else {}
    if call.stream:
        data |= {"stream": True, "stream_options": {"include_usage": True}}
    return Call("chat", data, call.size, call.digest, call.model, call.headers, call.stream), data


def _messages(body: Json) -> list[Json]:
    made: list[Json] = []
    system = "\n".join(_texts(google.parts_of(body.get("systemInstruction"))))
    if system:
        made.append({"role": "system", "content": system})
    waiting = _Waiting()
    for number, content in enumerate(_dicts(body.get("contents"))):
        parts = _dicts(content.get("parts"))
        if content.get("role") == "model":
            made.append(_assistant(parts, number, waiting))
            continue
        for part in parts:
            if isinstance(result := part.get("functionResponse"), dict):
                made.append(_result(result, number, waiting))
        if said := [it for part in parts for it in _said(part)]:
            plain = len(said) == 1 and said[0]["type"] == "text"
            made.append({"role": "user", "content": said[0]["text"] if plain else said})
    return made


class _Waiting:
    """Calls of functions without a result, by the names and the ids that they have in the chat."""

    def __init__(self) -> None:
        self._ids: Counter[str] = Counter()
        self._named: dict[str, deque[str]] = {}

    def add(self, name: str, identity: str) -> None:
        self._ids[identity] += 1
        self._named.setdefault(name, deque()).append(identity)

    def take(self, name: str, identity: str) -> str:
        """The id of the call that a result is of: that with its id, else the first of its name; or an empty text."""
        named = deque([identity]) if identity else self._named.get(name, deque())
        while named:
            if self._ids[found := named.popleft()]:
                self._ids[found] -= 1
                return found
        return ""


def _assistant(parts: list[Json], number: int, waiting: _Waiting) -> Json:
    calls = []
    for at, part in enumerate(parts):
        if isinstance(call := part.get("functionCall"), dict):
            identity = str(call.get("id") or f"call_{number}_{at}")
            waiting.add(str(call.get("name")), identity)
            function = {"name": str(call.get("name")), "arguments": _written(call.get("args") or {})}
            calls.append({"id": identity, "type": "function", "function": function})
    text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought"))
    return {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}


def _result(result: Json, number: int, waiting: _Waiting) -> Json:
    """A function's result: of the call with its id, else of the first call of this name that has none yet."""
    identity = str(result.get("id") or "")
    found = waiting.take(str(result.get("name")), identity)
    content = result.get("response")
    return {
        "role": "tool", "tool_call_id": found or identity or f"call_{number}",
        "content": content if isinstance(content, str) else _written(content),
    }  # fmt: skip


def _written(value: Any) -> str:
    # A character that is escaped would be billed as the six that it is written with.
    return json.dumps(value, ensure_ascii=False)


def _said(part: Json) -> list[Json]:
    if isinstance(part.get("text"), str):
        return [{"type": "text", "text": part["text"]}]
    data = part.get("inlineData")
    if not isinstance(data, dict):
        return []
    kind, content = str(data.get("mimeType")), str(data.get("data"))
    address = f"data:{kind};base64,{content}"
    if kind.startswith("image/"):
        return [{"type": "image_url", "image_url": {"url": address}}]
    return [{"type": "file", "file": {"filename": "file", "file_data": address}}]


def _texts(parts: Any) -> list[str]:
    # Backwards, as they come from a stack.
    return [part["text"] for part in parts if isinstance(part.get("text"), str)][::-1]


def _tool(declared: Json) -> Json:
    schema = declared.get("parametersJsonSchema") or declared.get("parameters_json_schema")
    schema = schema or _schema(declared.get("parameters") or {"type": "object", "properties": {}})
    about = {"description": declared["description"]} if declared.get("description") else {}
    return {"type": "function", "function": {"name": str(declared.get("name")), **about, "parameters": schema}}


def _schema(schema: Any) -> Any:
    """Google's schema as JSON Schema: types in lower case."""
    if isinstance(schema, list):
        return [_schema(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _schema(value) for name, value in schema.items()}
    if isinstance(schema.get("type"), str):
        made["type"] = schema["type"].lower()
    return made


async def as_google(call: Call, response: Response, rule: Rule) -> Response:
    """A chat's answer in Google's protocol; a refusal as the chat said it, in Google's shape."""
    if response.chunks is not None:
        return Response(200, _EVENTS, chunks=_streamed(call, response.chunks, rule))
    try:
        body = json.loads(response.content)
    except ValueError:
        body = None
    if response.status != 200:
        error = body.get("error") if isinstance(body, dict) else None
        said = (
            str(error.get("message")) if isinstance(error, dict) else response.content[:500].decode("utf-8", "replace")
        )
        shown = google.error_body(response.status, "upstream_refused", said, None)
        return Response(response.status, _without_length(response), json.dumps(shown).encode())
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        raise TransportFault("invalid", "the upstream's answer is not of its protocol", billed=True)
    made = _answer(body, _usage(normalise(rule, body.get("usage"))))
    return Response(200, _without_length(response), json.dumps(made).encode())


def _answer(body: Json, usage: Json | None) -> Json:
    candidates = []
    for choice in _dicts(body.get("choices")):
        message = choice.get("message")
        parts = _parts(message if isinstance(message, dict) else {})
        candidates.append(_candidate(choice.get("index") or 0, parts, choice.get("finish_reason") or "stop"))
    return _whole(body, candidates, usage)


def _whole(body: Json, candidates: list[Json], usage: Json | None) -> Json:
    made = {
        "candidates": candidates,
        "modelVersion": str(body.get("model") or ""),
        "responseId": str(body.get("id") or ""),
    }
    return {**made, "usageMetadata": usage} if usage else made


def _candidate(index: int, parts: list[Json], reason: object) -> Json:
    made: Json = {"content": {"role": "model", "parts": parts}, "index": index}
    return {**made, "finishReason": _REASONS.get(str(reason), "OTHER")} if reason else made


def _parts(message: Json) -> list[Json]:
    parts: list[Json] = []
    for name, more in (("reasoning_content", {"thought": True}), ("content", {})):
        if isinstance(message.get(name), str) and message[name]:
            parts.append({"text": message[name], **more})
    for call in _dicts(message.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            parts.append({"functionCall": {"id": str(call.get("id") or ""), "name": str(function.get("name") or ""),
                                           "args": _arguments(function.get("arguments"))}})  # fmt: skip
    return parts


def _arguments(text: object) -> Json:
    try:
        found = json.loads(str(text)) if text else {}
    except (ValueError, RecursionError):
        found = None
    # Google's arguments are an object; what the model wrote instead stays readable.
    return found if isinstance(found, dict) else {"raw": str(text)}


def _usage(tokens: Tokens | None) -> Json | None:
    if tokens is None:
        return None
    written, cached = tokens.cache_write or 0, tokens.cache_read or 0
    prompt, thought = (tokens.input_uncached or 0) + cached + written, tokens.reasoning or 0
    output = tokens.output or 0
    made = {
        "promptTokenCount": prompt, "cachedContentTokenCount": cached, "candidatesTokenCount": output - thought,
        "thoughtsTokenCount": thought, "totalTokenCount": prompt + output,
    }  # fmt: skip
    return {**made, "cacheWriteTokenCount": written} if written else made


async def _streamed(call: Call, chunks: AsyncGenerator[bytes, None], rule: Rule) -> AsyncGenerator[bytes, None]:
    """Words as they come; calls of functions, which Google sends whole, and the usage at the end."""
    reader, events = READERS["chat"](), Events()
    last: Json = {}
    async with aclosing(chunks):
        async for chunk in chunks:
            for event in events.feed(chunk):
                data = event_data(event)
                if data is None:
                    continue
                reader.take(data)
                last = {**last, **{name: data[name] for name in ("id", "model") if data.get(name)}}
                for choice in _dicts(data.get("choices")):
                    delta = choice.get("delta")
                    said = (
                        {name: it for name, it in delta.items() if name != "tool_calls"}
                        if isinstance(delta, dict)
                        else {}
                    )
                    if parts := _parts(said):
                        yield _event(_whole(last, [_candidate(choice.get("index") or 0, parts, None)], None))
    answer = reader.finish()
    if not answer.complete:
        raise TransportFault("stream_broken", "the upstream's stream ended early", billed=True)
    calls = _parts({"tool_calls": answer.message.get("tool_calls")})
    ends = [_candidate(0, calls, answer.finish_reason)]
    ends += [_candidate(index, [], "stop") for index in range(1, call.copies)]
    yield _event(_whole(last, ends, _usage(normalise(rule, answer.usage))))


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps(data).encode("ascii") + b"\r\n\r\n"


def _without_length(response: Response) -> list[tuple[str, str]]:
    return [(name, value) for name, value in response.headers if name.lower() != "content-length"]


def _dicts(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
