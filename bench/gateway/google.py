"""Google's protocol, `generateContent` and `countTokens`: paths, one spelling of requests, what answers and errors say.

The model and the way of answering are in the path. Field names may be written `inlineData` or `inline_data`, and a list
of one as its item; here everything has the first form and is a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

Json = dict[str, Any]
CLIENT_TOOLS = frozenset({"functionDeclarations", "computerUse"})
"""What a tool may hold that the client carries out; whatever else there is or will be, Google runs."""
_PATH = re.compile(r"(?:/v1|/v1beta|/v1alpha)?/models/(?P<model>[^?]+):(?P<method>[A-Za-z]+)")
_METHODS = {"generateContent": "generate", "streamGenerateContent": "generate", "countTokens": "count_generate"}
_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION", 403: "PERMISSION_DENIED",
           404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}  # fmt: skip
_URL_LETTERS = str.maketrans("-_", "+/")
"""Of base64 for addresses, which Google's Python client writes -> of plain base64, which everyone reads."""
_DEEPEST_PARTS = 8
"""Levels of parts within results of functions that are spelled anew."""


@dataclass(frozen=True)
class Target:
    """What the path of a request says."""

    method: str
    """`generate` or `count_generate`."""
    model: str
    stream: bool
    array: bool
    """The stream is to be one JSON array in place of events."""


def find_target(path: str) -> Target | None:
    """What `path`, with its query, asks for in Google's protocol; None: it is not of this protocol."""
    plain, _, query = path.partition("?")
    found = _PATH.fullmatch(plain)
    if found is None or found["method"] not in _METHODS:
        return None
    stream = found["method"] == "streamGenerateContent"
    return Target(
        _METHODS[found["method"]], unquote(found["model"]), stream, stream and parse_qs(query).get("alt") != ["sse"]
    )


def upstream_path(model: str, method: str, stream: bool) -> str:
    """The path at Google's address, below its version. Streams are always asked for as events."""
    name = "countTokens" if method == "count_generate" else "streamGenerateContent" if stream else "generateContent"
    return f"/models/{model}:{name}{'?alt=sse' if stream else ''}"


class SpelledTwice(ValueError):
    """A field is there in both spellings; which one counts is anybody's guess."""


def one_spelling(data: Json) -> Json:
    """The body of a request in one spelling; raises `SpelledTwice`. What functions and schemas hold stays as it is."""
    data = _camel(data)
    if not isinstance(data, dict):
        return data
    for name in ("generationConfig", "toolConfig"):
        _within(data, name, _camel)
    _within(data.get("generationConfig"), "thinkingConfig", _camel)
    _within(data.get("toolConfig"), "functionCallingConfig", _camel)
    _within(data, "tools", lambda it: [_camel(tool) for tool in _listed(it)])
    _within(data, "systemInstruction", _content)
    _within(data, "contents", lambda it: [_content(item) for item in _listed(it)])
    _within(data, "generateContentRequest", one_spelling)
    return data


def _content(content: Any) -> Any:
    if isinstance(content, str):
        # What Google's own client makes of a text.
        return {"parts": [{"text": content}]}
    content = _camel(content)
    _within(content, "parts", lambda it: [_part(part, _DEEPEST_PARTS) for part in _listed(it)])
    return content


def _part(part: Any, levels: int) -> Any:
    part = _camel(part)
    for name in ("inlineData", "fileData", "functionCall", "functionResponse"):
        _within(part, name, _camel)
    held = part.get("inlineData") if isinstance(part, dict) else None
    if isinstance(held, dict) and isinstance(held.get("data"), str):
        held["data"] = held["data"].translate(_URL_LETTERS)
    if levels and isinstance(part, dict):
        _within(part.get("functionResponse"), "parts", lambda it: [_part(one, levels - 1) for one in _listed(it)])
    return part


def _within(data: object, name: str, change: Callable[[Any], Any]) -> None:
    if isinstance(data, dict) and isinstance(data.get(name), dict | list | str):
        data[name] = change(data[name])


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _camel(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    made: Json = {}
    for name, value in data.items():
        first, *others = name.split("_") if not name.startswith("_") else [name]
        spelled = first + "".join(it[:1].upper() + it[1:] for it in others)
        if spelled in made:
            raise SpelledTwice(spelled)
        made[spelled] = value
    return made


def parts_of(content: object) -> Iterator[Json]:
    """Every part of a content, those within results of functions included."""
    pending = list(content["parts"]) if isinstance(content, dict) and isinstance(content.get("parts"), list) else []
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            held = part.get("functionResponse")
            if isinstance(held, dict) and isinstance(held.get("parts"), list):
                pending.extend(held["parts"])


def contents_of(data: Json) -> list[Any]:
    """The conversation and the system's words of a request, as contents."""
    inner = data.get("generateContentRequest")
    found = [data.get("systemInstruction"), *_listed(data.get("contents") or [])]
    return found + (contents_of(inner) if isinstance(inner, dict) else [])


def error_body(status: int, code: str, message: str, limit: str | None) -> Json:
    """A refusal as Google's clients read it; our own code is in the details."""
    facts = {"code": code, **({"limit": limit} if limit else {})}
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code.upper(), "domain": "ml-dev-bench",
        "metadata": facts,
    }  # fmt: skip
    known = _STATUS.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    return {"error": {"code": status, "message": message, "status": known, "details": [detail]}}


def listed_models(names: list[str]) -> list[Json]:
    """Models as Google lists them."""
    methods = ["generateContent", "countTokens"]
    return [{"name": f"models/{it}", "displayName": it, "supportedGenerationMethods": methods} for it in names]


async def as_array(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """A stream of whole events as one JSON array, piece by piece."""
    between = b"["
    async with aclosing(chunks):
        async for chunk in chunks:
            for line in chunk.splitlines():
                if line.startswith(b"data:") and line[5:].strip():
                    yield between + line[5:].strip()
                    between = b",\r\n"
    yield b"]" if between != b"[" else b"[]"


def finished(body: Json) -> list[tuple[object, str]]:
    """Index and reason of the candidates that end with this answer; a question that was refused ends the first."""
    ends = [
        (it.get("index", 0), str(it["finishReason"]))
        for it in _objects(body.get("candidates"))
        if it.get("finishReason")
    ]
    feedback = body.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        ends.append((0, str(feedback["blockReason"])))
    return ends


def candidate_parts(body: Json, *, first: bool = True) -> list[Json]:
    """The parts that an answer brings: of its first candidate, or of all the others."""
    found: list[Json] = []
    for candidate in _objects(body.get("candidates")):
        content = candidate.get("content")
        if isinstance(content, dict) and (candidate.get("index", 0) == 0) == first:
            found += _objects(content.get("parts"))
    return found


def function_call(part: Json) -> tuple[object, object, str] | None:
    """Id, name and arguments of a part that is a call of a function. Without an id the name stands for it."""
    call = part.get("functionCall")
    if not isinstance(call, dict):
        return None
    return call.get("id") or call.get("name"), call.get("name"), json.dumps(call.get("args") or {})


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
