"""The trace of a cell in ATIF, the trajectory format that Harbor and other tools read."""

from __future__ import annotations

import json
from collections.abc import Iterable

from bench.formats.record import Tokens
from bench.gateway.answers import blocks_message
from bench.gateway.call_log import TracedCall
from bench.gateway.request import Json

ATIF_VERSION = "ATIF-v1.6"


def to_atif(calls: Iterable[TracedCall], agent: str, session: str, version: str = "unknown") -> Json:
    """One trajectory: what was said to the model, what it answered, what its tools brought, what it cost.

    A call that starts another conversation than the one before (a role of its own, a branch of a search) shows its
    messages again from where it differs; each step names its call, so that conversations can be told apart.
    """
    writer = _Writer()
    models: list[str] = []
    for call in calls:
        if call.line.protocol in ("count_tokens", "embeddings") or call.line.status in ("refused", "probe"):
            continue
        writer.add(call)
        models.append(call.line.answered_by or call.line.model)
    return {
        "schema_version": ATIF_VERSION,
        "session_id": session,
        "agent": {"name": agent, "version": version, "model_name": models[-1] if models else None},
        "steps": writer.steps,
        "final_metrics": writer.totals(),
    }


class _Writer:
    def __init__(self) -> None:
        self.steps: list[Json] = []
        self._prompt = self._completion = self._cached = 0
        self._cost: float | None = 0.0
        self._answers: dict[str, Json] = {}
        """Agent steps by the ids of their tool calls, for the results that come with a later request."""

    def add(self, call: TracedCall) -> None:
        line = call.line
        system = call.frame.get("system") or call.frame.get("instructions")
        if system and not call.kept:
            self._step(line.time, "system", _text(system), line.seq)
        for item in call.items[call.kept :]:
            self._item(item, line.time, line.seq)
        self._answer(call)

    def totals(self) -> Json:
        return {
            "total_prompt_tokens": self._prompt,
            "total_completion_tokens": self._completion,
            "total_cached_tokens": self._cached,
            "total_cost_usd": self._cost,
            "total_steps": len(self.steps),
        }

    def _item(self, item: object, time: str, seq: int) -> None:
        if isinstance(item, str):
            self._step(time, "user", item, seq)
        if not isinstance(item, dict):
            return
        role, kind = item.get("role"), str(item.get("type"))
        content = item.get("content")
        if role == "tool":
            self._result(item.get("tool_call_id"), _text(content), time, seq)
        elif kind.endswith("_call_output"):
            self._result(item.get("call_id"), _text(item.get("output")), time, seq)
        elif role in ("system", "developer"):
            self._step(time, "system", _text(content), seq)
        elif role == "user":
            results = [it for it in content if _is_result(it)] if isinstance(content, list) else []
            for result in results:
                self._result(result.get("tool_use_id"), _text(result.get("content")), time, seq)
            said = _text([it for it in content if not _is_result(it)] if isinstance(content, list) else content)
            if said or not results:
                self._step(time, "user", said, seq)
        # The model's own turns are in the trace as the answers of earlier calls.

    def _result(self, identity: object, text: str, time: str, seq: int) -> None:
        """What a tool brought, at the step that asked for it."""
        step = self._answers.get(str(identity))
        if step is None:
            self._step(time, "user", text, seq)
            return
        observation = step.setdefault("observation", {"results": []})
        observation["results"].append({"source_call_id": str(identity), "content": text})

    def _answer(self, call: TracedCall) -> None:
        line = call.line
        message = line.answer if isinstance(line.answer, dict) else {}
        text = message.get("content")
        step = self._step(line.time, "agent", _text(text) or (f"[{line.error}]" if line.error else ""), line.seq)
        step["model_name"] = line.answered_by or line.model
        if message.get("reasoning_content"):
            step["reasoning_content"] = str(message["reasoning_content"])
        calls = message.get("tool_calls")
        made = [_call(it) for it in calls if isinstance(it, dict)] if isinstance(calls, list) else []
        if made:
            step["tool_calls"] = made
            self._answers.update({it["tool_call_id"]: step for it in made})
        if line.tokens is not None:
            step["metrics"] = self._metrics(line.tokens, line.cost_usd)
        step["extra"] |= {"role": line.role, "status": line.status, "retries": line.retries, "seconds": line.seconds}

    def _metrics(self, tokens: Tokens, cost: float | None) -> Json:
        # ATIF's prompt tokens include cached ones.
        prompt = sum(part or 0 for part in (tokens.input_uncached, tokens.cache_read, tokens.cache_write))
        self._prompt += prompt
        self._completion += tokens.output or 0
        self._cached += tokens.cache_read or 0
        self._cost = None if self._cost is None or cost is None else self._cost + cost
        metrics: Json = {
            "prompt_tokens": prompt, "completion_tokens": tokens.output or 0, "cached_tokens": tokens.cache_read or 0,
            "extra": {"cache_write_tokens": tokens.cache_write, "reasoning_tokens": tokens.reasoning},
        }  # fmt: skip
        return metrics if cost is None else {**metrics, "cost_usd": cost}

    def _step(self, time: str, source: str, message: str, seq: int) -> Json:
        step = {
            "step_id": len(self.steps) + 1, "timestamp": time, "source": source, "message": message,
            "extra": {"call": seq},
        }  # fmt: skip
        self.steps.append(step)
        return step


def _call(call: Json) -> Json:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    given = function.get("arguments")
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        arguments = None
    # ATIF wants an object; what the model wrote instead stays readable.
    shown = arguments if isinstance(arguments, dict) else {"raw": given}
    return {
        "tool_call_id": str(call.get("id") or ""),
        "function_name": str(function.get("name") or ""),
        "arguments": shown,
    }


def _is_result(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_result"


def _text(content: object) -> str:
    """The words of a content in any protocol."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return _text(content.get("text") or content.get("content") or "")
    if isinstance(content, list):
        if any(isinstance(it, dict) and it.get("type") in ("tool_use", "thinking") for it in content):
            return str(blocks_message(content).get("content") or "")
        return "\n".join(filter(None, (_text(it) for it in content)))
    return ""
