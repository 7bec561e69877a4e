"""For authors of services.py: a language model with a script, for products that call one. Standard library only.

It speaks the chat completions and responses of OpenAI's API, with streams. What it was asked is in its journal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.casekit.services import Request, Response, Service

_MOST_JOURNALED = 4000
"""Characters of one message in the journal."""
_MOST_NAMED = 200
"""Characters of a name or a setting in the journal: one request shall not fill it."""
_MOST_SEARCHED = 100_000
"""Characters of a message that patterns are tried on, so that a long one cannot keep the service busy."""
_PIECE = re.compile(r"\S+\s*|\s+")
_FIELDS = frozenset({"when", "system", "turn", "model", "say", "json", "tool", "arguments", "status", "error", "name"})


@dataclass(frozen=True)
class Conversation:
    """One request of the product's, in one form for both protocols."""

    model: str
    messages: Sequence[Mapping[str, str]]
    """`role` and `content`, the content as text."""
    tools: Sequence[str]
    """Names of the tools that the model may call."""
    settings: Mapping[str, Any]
    """What else the request says, such as `temperature` and `response_format`."""

    @property
    def last(self) -> str:
        """What the product said last, as a user or as a tool."""
        return next((it["content"] for it in reversed(self.messages) if it["role"] in ("user", "tool")), "")

    @property
    def system(self) -> str:
        """The instructions of the product to the model."""
        return "\n".join(it["content"] for it in self.messages if it["role"] in ("system", "developer"))

    @property
    def turn(self) -> int:
        """1 for the first answer of a conversation."""
        return 1 + sum(it["role"] == "assistant" for it in self.messages)


@dataclass(frozen=True)
class Answer:
    """What the model says: a text, calls of tools, or an error."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    """Names and arguments."""
    status: int = 200
    error: str = ""


@dataclass(frozen=True)
class Rule:
    """An answer and when it is given: every condition that is there must hold."""

    answer: Answer
    when: str = ""
    """A pattern that is searched in what the product said last; its groups fill `{1}` or `{name}` in the answer."""
    system: str = ""
    """One that is searched in the instructions."""
    turn: int | None = None
    model: str = ""
    name: str = ""
    """Of the rule, in the journal."""

    def match(self, conversation: Conversation) -> re.Match[str] | None:
        """How the rule matches; None where it does not."""
        if self.turn not in (None, conversation.turn) or self.model not in ("", conversation.model):
            return None
        if not re.search(self.system, conversation.system[:_MOST_SEARCHED], re.DOTALL):
            return None
        return re.search(self.when, conversation.last[:_MOST_SEARCHED], re.DOTALL)


Script = Callable[[Conversation, Service], Answer | None]
"""A function of the case; None where it has no answer."""


@dataclass(frozen=True)
class ScriptedModel:
    """Answers by the first of its rules that matches, or by a function of the case."""

    rules: Sequence[Rule] = ()
    script: Script | None = None
    """Asked before the rules."""
    models: Sequence[str] = field(default=("scripted",))
    """Names of models that there are; a request for another one is an error."""

    @classmethod
    def from_file(cls, path: Path, models: Sequence[str] = ("scripted",)) -> ScriptedModel:
        """Read a script: a JSON list of rules with the fields `when`, `system`, `turn`, `model`, `name`, and of the
        answer `say`, `json`, `tool` with `arguments`, or `status` with `error`. Raises `ValueError` for another field.
        """
        return cls(
            [_rule(number, facts) for number, facts in enumerate(json.loads(path.read_text("utf-8")))], None, models
        )

    def __call__(self, request: Request, service: Service) -> Response:
        """Handle a request: the service of a case may be the model itself."""
        path = request.path.removeprefix("/v1").rstrip("/")
        if request.method == "GET" and path == "/models":
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "bench"} for name in self.models]
            return Response.json({"object": "list", "data": listed})
        if request.method != "POST" or path not in ("/chat/completions", "/responses"):
            return _refused(404, f"{request.method} {request.path} is not here")
        try:
            body = json.loads(request.body)
            conversation = (_chat if path == "/chat/completions" else _response_input)(body)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
            service.journal({"event": "refused", "path": path, "error": str(fault)[:200]})
            return _refused(400, f"the request cannot be read: {fault}")
        if conversation.model not in self.models:
            service.journal({"event": "refused", "path": path, "error": f"no model {conversation.model[:100]}"})
            return _refused(404, f"the model {conversation.model!r} does not exist")
        answer, name = self._answer(conversation, service)
        service.journal(
            {"event": "asked", "rule": name, **_told(conversation), "answer": answer.text[:_MOST_JOURNALED]}
        )
        if answer.status != 200:
            return _refused(answer.status, answer.error or "the model does not answer")
        write = _chat_answer if path == "/chat/completions" else _response_answer
        return write(conversation, answer, bool(body.get("stream")))

    def _answer(self, conversation: Conversation, service: Service) -> tuple[Answer, str]:
        if self.script is not None and (answer := self.script(conversation, service)) is not None:
            return answer, "script"
        for number, rule in enumerate(self.rules):
            if (match := rule.match(conversation)) is not None:
                return _filled(rule.answer, match), rule.name or f"rule {number}"
        return Answer(status=422, error="the script of this model has no answer to that"), ""


def _rule(number: int, facts: Mapping[str, Any]) -> Rule:
    if unknown := facts.keys() - _FIELDS:
        raise ValueError(f"rule {number} has unknown fields: {', '.join(sorted(unknown))}")
    calls = [(facts["tool"], facts.get("arguments", {}))] if "tool" in facts else []
    text = json.dumps(facts["json"]) if "json" in facts else facts.get("say", "")
    answer = Answer(text, calls, facts.get("status", 200), facts.get("error", ""))
    conditions = {name: facts[name] for name in ("when", "system", "turn", "model", "name") if name in facts}
    for name in ("when", "system"):
        re.compile(conditions.get(name, ""))
    return Rule(answer, **conditions)


def _filled(answer: Answer, match: re.Match[str]) -> Answer:
    """The answer with the groups of what was matched; braces without such a group stay, as in JSON."""
    groups = {str(number): text for number, text in enumerate((match.group(0), *match.groups()))} | match.groupdict()

    def fill(text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda it: groups.get(it.group(1), it.group(0)) or "", text)

    calls = [
        (name, {key: fill(it) if isinstance(it, str) else it for key, it in held.items()})
        for name, held in answer.calls
    ]
    return Answer(fill(answer.text), calls, answer.status, answer.error)


def _told(conversation: Conversation) -> dict[str, Any]:
    """The request as the journal has it."""
    messages = [
        {"role": it["role"][:_MOST_NAMED], "content": it["content"][:_MOST_JOURNALED]}
        for it in conversation.messages[-20:]
    ]
    settings = {name[:_MOST_NAMED]: _short(value) for name, value in list(conversation.settings.items())[:50]}
    return {
        "model": conversation.model,
        "turn": conversation.turn,
        "messages": messages,
        "tools": [name[:_MOST_NAMED] for name in conversation.tools[:50]],
        "settings": settings,
    }


def _short(value: object) -> object:
    """A setting as far as a journal needs it; JSON's integers and texts have no end."""
    plain = value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63)
    return value if plain else str(value)[:_MOST_NAMED]


def _chat(body: Mapping[str, Any]) -> Conversation:
    """A request of /chat/completions."""
    messages = [{"role": str(it["role"]), "content": _text(it.get("content"))} for it in body["messages"]]
    tools = [str(it["function"]["name"]) for it in body.get("tools") or []]
    settings = {name: value for name, value in body.items() if name not in ("model", "messages", "tools")}
    return Conversation(str(body["model"]), messages, tools, settings)


def _response_input(body: Mapping[str, Any]) -> Conversation:
    """A request of /responses."""
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = [{"role": "system", "content": str(body["instructions"])}] if body.get("instructions") else []
    for it in items:
        if it.get("type") == "function_call_output":
            messages.append({"role": "tool", "content": _text(it["output"])})
        elif it.get("type") == "function_call":
            messages.append({"role": "assistant", "content": ""})
        else:
            messages.append({"role": str(it["role"]), "content": _text(it.get("content"))})
    tools = [str(it.get("name", it.get("type"))) for it in body.get("tools") or []]
    settings = {name: value for name, value in body.items() if name not in ("model", "input", "tools", "instructions")}
    return Conversation(str(body["model"]), messages, tools, settings)


def _text(content: object) -> str:
    """The text of a message, of one or of several parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def _usage(conversation: Conversation, answer: Answer) -> tuple[int, int]:
    """Tokens in and out: words, so that the same request always counts the same."""
    return sum(len(it["content"].split()) for it in conversation.messages), len(answer.text.split())


def _chat_answer(conversation: Conversation, answer: Answer, streamed: bool) -> Response:
    calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(held)}}
        for number, (name, held) in enumerate(answer.calls)
    ]
    reason = "tool_calls" if calls else "stop"
    read, written = _usage(conversation, answer)
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    head = {"id": "chatcmpl-scripted", "created": 0, "model": conversation.model}
    if not streamed:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or (None if calls else "")}
        message |= {"tool_calls": calls} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return Response.json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    def events() -> Iterator[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in _PIECE.findall(answer.text)]
        deltas += [{"tool_calls": [{"index": number, **call}]} for number, call in enumerate(calls)]
        for delta in deltas:
            yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        options = conversation.settings.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):
            yield {"choices": [], "usage": usage}

    lines = [f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', **it})}\n\n" for it in events()]
    return _stream([*lines, "data: [DONE]\n\n"])


def _response_answer(conversation: Conversation, answer: Answer, streamed: bool) -> Response:
    read, written = _usage(conversation, answer)
    part = {"type": "output_text", "text": answer.text, "annotations": []}
    message = {"id": "msg_0", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    calls = [
        {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}", "name": name,
         "arguments": json.dumps(held), "status": "completed"}
        for number, (name, held) in enumerate(answer.calls)
    ]  # fmt: skip
    whole: dict[str, Any] = {
        "id": "resp_scripted", "object": "response", "created_at": 0, "status": "completed", "error": None,
        "model": conversation.model, "output": [*([message] if answer.text or not calls else []), *calls],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "usage": {"input_tokens": read, "output_tokens": written, "total_tokens": read + written,
                  "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
    }  # fmt: skip
    if not streamed:
        return Response.json(whole)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
    ]
    place = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    events += [{"type": "response.output_text.delta", **place, "delta": it} for it in _PIECE.findall(answer.text)]
    events += [{"type": "response.output_text.done", **place, "text": answer.text}] if answer.text else []
    for number, item in enumerate(whole["output"]):
        events.append({"type": "response.output_item.done", "output_index": number, "item": item})
    events.append({"type": "response.completed", "response": whole})
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return _stream([f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered])


def _stream(lines: Sequence[str]) -> Response:
    return Response(200, "".join(lines).encode(), {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})


def _refused(status: int, message: str) -> Response:
    return Response.json(
        {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}, status
    )
