"""The trace of a cell in ATIF, the trajectory format that Harbor and other tools read."""

from __future__ import annotations

import json
from collections.abc import Iterable

from bench.formats.model_usage import Tokens
from bench.gateway.call_log import TracedCall
from bench.gateway.json_values import Json
from bench.gateway.steps import Step, ToolUse, read_steps

ATIF_VERSION = "ATIF-v1.8"


def to_atif(calls: Iterable[TracedCall], agent: str, session: str, version: str = "unknown") -> Json:
    """One trajectory: what was said to the model, what it answered, what its tools brought, what it cost.

    A call that starts another conversation than the one before (a role of its own, a branch of a search) shows its
    messages again from where it differs; each step names its call, so that conversations can be told apart.
    """
    writer = _Writer()
    models: list[str] = []
    for step in read_steps(calls):
        if step.protocol == "embeddings" or step.status == "refused":
            continue
        writer.add(step)
        models.append(step.model)
    return {
        "schema_version": ATIF_VERSION,
        "session_id": session,
        "trajectory_id": session,
        "agent": {"name": agent, "version": version, "model_name": models[-1] if models else None},
        "steps": writer.steps,
        "final_metrics": writer.totals(),
    }


class _Writer:
    def __init__(self) -> None:
        self.steps: list[Json] = []
        self._prompt = self._completion = self._cached = 0
        self._cost: float | None = 0.0

    def add(self, step: Step) -> None:
        for said in step.said:
            told = self._step(step, "system" if said.speaker == "system" else "user", said.text)
            if said.repeated:
                told["is_copied_context"] = True
        made = self._step(step, "agent", step.text or (f"[{step.error}]" if step.error else ""))
        made["model_name"] = step.model
        # One step is one call of a model; one that failed or was refused brought nothing all the same.
        made["llm_call_count"] = 1
        if step.thought:
            made["reasoning_content"] = step.thought
        if step.tools:
            made["tool_calls"] = [_call(it) for it in step.tools]
        if results := [{"source_call_id": it.id, "content": text} for it in step.tools for text in it.observations]:
            made["observation"] = {"results": results}
        if step.tokens is not None:
            made["metrics"] = self._metrics(step.tokens, step.cost_usd)
        made["extra"] |= {"role": step.role, "status": step.status, "retries": step.retries, "seconds": step.seconds}

    def totals(self) -> Json:
        return {
            "total_prompt_tokens": self._prompt,
            "total_completion_tokens": self._completion,
            "total_cached_tokens": self._cached,
            "total_cost_usd": self._cost,
            "total_steps": len(self.steps),
        }

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

    def _step(self, step: Step, source: str, message: str) -> Json:
        made = {
            "step_id": len(self.steps) + 1, "timestamp": step.time, "source": source, "message": message,
            "extra": {"call": step.call},
        }  # fmt: skip
        self.steps.append(made)
        return made


def _call(call: ToolUse) -> Json:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    # ATIF wants an object; what the model wrote instead stays readable.
    shown = arguments if isinstance(arguments, dict) else {"raw": call.arguments}
    return {"tool_call_id": call.id, "function_name": call.name, "arguments": shown}
