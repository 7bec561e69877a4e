"""The trace of a cell step by step: what was said to the model, its thought, its tool calls and what they brought.

One form for all protocols. All text is untrusted: show it only through `bench.base.text` or escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from bench.base.model import Model
from bench.formats.model_usage import Tokens
from bench.gateway.answers import blocks_message
from bench.gateway.call_log import Status, TracedCall
from bench.gateway.json_values import Json
from bench.gateway.request import COUNTS, Dialect

Speaker = Literal["system", "user", "tool"]
"""`tool`: what a tool brought, where the call that asked for it is not in the trace."""
_SILENT = ("thinking", "redacted_thinking", "reasoning")
"""Parts of a content that are not words to anyone."""


@dataclass(frozen=True)
class Said:
    """What the agent's program put before the model in one request."""

    speaker: Speaker
    text: str
    repeated: bool = False
    """The same has been said to this role before: the agent began its conversation anew, or took a branch of it."""


@dataclass
class ToolUse:
    """A tool call of the model, and what the tool brought."""

    id: str
    name: str
    arguments: str
    """As the model wrote them: JSON if the model made no mistake."""
    observations: list[str] = field(default_factory=list)
    """As later requests say it; empty where no request did, several where the agent changed its mind."""


@dataclass
class Step:
    """One model call."""

    call: int
    """Its number in the ledger."""
    number: int
    """Of the successful calls of a conversation, which count as steps; 0: this call is not one of them."""
    time: str
    role: str
    model: str
    """The name that the upstream gave itself, else the one the run was asked to use."""
    protocol: Dialect
    status: Status
    said: list[Said] = field(default_factory=list)
    """What is new before the model."""
    thought: str = ""
    """Reasoning that the provider shows."""
    text: str = ""
    """The answer's words."""
    tools: list[ToolUse] = field(default_factory=list)
    tokens: Tokens | None = None
    """None: not known, or there were none."""
    estimated: bool = False
    """The provider did not say what the call used."""
    cost_usd: float | None = None
    seconds: float = 0.0
    retries: int = 0
    finish_reason: str = ""
    code: str = ""
    """Why the call was refused or failed, for programs: `budget_exceeded`, `cassette_miss`."""
    error: str = ""


class TraceSteps(Model):
    """All steps of a cell, for programs."""

    schema_: Literal[1] = Field(1, alias="schema")
    steps: list[Step]


def read_steps(calls: Iterable[TracedCall]) -> list[Step]:
    """The model calls of a cell in their order; the gateway's own requests and counts of tokens are left out."""
    reader = _Reader()
    return [reader.step(call) for call in calls if call.line.protocol not in COUNTS and call.line.status != "probe"]


@dataclass
class _Conversation:
    """What one role has been told so far, in one protocol."""

    length: int = 0
    system: str = ""
    heard: set[str] = field(default_factory=set)


class _Reader:
    def __init__(self) -> None:
        self._count = 0
        self._conversations: dict[tuple[str, Dialect], _Conversation] = {}
        self._asked: dict[tuple[str, str], tuple[ToolUse, set[str]]] = {}
        """Tool calls by role and id, and what each has brought: ids of two roles may be the same, and of one role the
        last call counts."""

    def step(self, call: TracedCall) -> Step:
        line = call.line
        counts = line.is_step
        self._count += counts
        step = Step(
            call=line.seq,
            number=self._count if counts else 0,
            time=line.time,
            role=line.role,
            model=line.answered_by or line.model,
            protocol=line.protocol,
            status=line.status,
            tokens=line.tokens,
            estimated=line.estimated,
            cost_usd=line.cost_usd,
            seconds=line.seconds,
            retries=line.retries,
            finish_reason=line.finish_reason,
            code=line.code,
            error=line.error,
        )
        if line.protocol != "embeddings":
            step.said = list(self._heard(call))
            self._answer(step, line.answer if isinstance(line.answer, dict) else {})
        return step

    def _heard(self, call: TracedCall) -> Iterator[Said]:
        role = call.line.role
        before = self._conversations.setdefault((role, call.line.protocol), _Conversation())
        anew = call.kept < before.length
        before.length = len(call.items)
        system = words(call.frame.get("system") or call.frame.get("instructions") or _google_system(call.frame))
        if system and system != before.system:
            yield Said("system", system)
        before.system = system
        for item in call.items[call.kept :]:
            for speaker, text, identity in _parts(item):
                key = f"{speaker}\0{identity}\0{text}"
                repeated = anew and key in before.heard
                before.heard.add(key)
                asked = self._asked.get((role, identity)) if speaker == "tool" else None
                if asked is None:
                    yield Said(speaker, text, repeated)
                    continue
                # History that is sent again shows once more what a tool brought, and ids may be used again.
                use, brought = asked
                if not repeated and text not in brought:
                    brought.add(text)
                    use.observations.append(text)

    def _answer(self, step: Step, message: dict[str, Any]) -> None:
        step.text = words(message.get("content")) or words(message.get("refusal"))
        step.thought = words(message.get("reasoning_content")) or words(message.get("reasoning"))
        calls = message.get("tool_calls")
        step.tools = [_tool_use(it) for it in calls if isinstance(it, dict)] if isinstance(calls, list) else []
        self._asked.update({(step.role, it.id): (it, set()) for it in step.tools})


def _parts(item: object) -> Iterator[tuple[Speaker, str, str]]:
    """Speaker, words and id of the tool call of each part of a message; the model's own turns have none."""
    if isinstance(item, str):
        yield "user", item, ""
    if not isinstance(item, dict):
        return
    role, kind, content = item.get("role"), str(item.get("type")), item.get("content")
    if isinstance(item.get("parts"), list) and content is None:
        if role != "model":
            yield from _google_parts(item["parts"])
        return
    if role in ("tool", "function"):
        yield "tool", words(content), str(item.get("tool_call_id") or "")
    elif kind.endswith("_call_output"):
        yield "tool", words(item.get("output")), str(item.get("call_id") or "")
    elif kind == "tool_search_output":
        found = item.get("tools")
        names = [str(it.get("name")) for it in found if isinstance(it, dict)] if isinstance(found, list) else []
        yield "tool", ", ".join(names), str(item.get("call_id") or "")
    elif role in ("system", "developer"):
        yield "system", words(content), ""
    elif role == "user":
        parts = content if isinstance(content, list) else [content]
        # Each part is looked at once: an agent may send as many as a body holds, and all readers of traces would wait.
        results: list[Json] = []
        others: list[Any] = []
        for it in parts:
            if isinstance(it, dict) and it.get("type") == "tool_result":
                results.append(it)
            else:
                others.append(it)
        for result in results:
            yield "tool", words(result.get("content")), str(result.get("tool_use_id") or "")
        said = words(others)
        if said or not results:
            yield "user", said, ""


def _google_system(frame: dict[str, Any]) -> list[Any]:
    system = frame.get("systemInstruction")
    return system.get("parts") or [] if isinstance(system, dict) else []


def _google_parts(parts: list[Any]) -> Iterator[tuple[Speaker, str, str]]:
    said = []
    for part in parts:
        result = part.get("functionResponse") if isinstance(part, dict) else None
        if isinstance(result, dict):
            given = result.get("response")
            known = given.get("output") if isinstance(given, dict) else given
            text = known if isinstance(known, str) else json.dumps(given)
            yield "tool", text, str(result.get("id") or result.get("name") or "")
        elif isinstance(part, dict):
            data = part.get("inlineData")
            said.append(f"[{data.get('mimeType')}]" if isinstance(data, dict) else words(part))
    if text := "\n".join(filter(None, said)):
        yield "user", text, ""


def _tool_use(call: dict[str, Any]) -> ToolUse:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    given = function.get("arguments")
    arguments = given if isinstance(given, str) else "" if given is None else json.dumps(given)
    return ToolUse(str(call.get("id") or ""), str(function.get("name") or ""), arguments)


def words(content: object) -> str:
    """The words of a content in any protocol; a picture or a document is named by its kind."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        kind = content.get("type")
        if kind in _SILENT:
            return ""
        found = words(content.get("text") or content.get("content") or content.get("output_text") or "")
        return found or (f"[{kind}]" if isinstance(kind, str) and kind not in _TEXTS else "")
    if isinstance(content, list):
        if any(isinstance(it, dict) and it.get("type") == "tool_use" for it in content):
            return str(blocks_message(content).get("content") or "")
        return "\n".join(filter(None, (words(it) for it in content)))
    return ""


_TEXTS = ("text", "input_text", "output_text", "message", "tool_result")
