"""The steps of a cell as text: what was said to the model, thought, tool calls, observations, tokens and dollars."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.report.sheet import Sheet

if TYPE_CHECKING:
    from bench.formats.model_usage import Tokens
    from bench.gateway import Said, Step, ToolUse

_MOST_SYSTEM = 4
"""Lines of a text. What the agent's program always says is long, and seldom the reason."""
_MOST_SAID = 8
_MOST_THOUGHT = 20
_MOST_RESULT = 12


def put_steps(sheet: Sheet, steps: Sequence[Step], *, roles: bool | None = None) -> None:
    """Write every step. roles: name the role of each call; None: where there is more than one."""
    named = len({step.role for step in steps}) > 1 if roles is None else roles
    model = ""
    for step in steps:
        _step(sheet, step, named, step.model if step.model != model else "")
        model = step.model


def totals_line(steps: Sequence[Step]) -> str:
    """Steps, tokens and dollars of all calls."""
    priced = [step.cost_usd for step in steps if step.tokens is not None]
    known = [cost for cost in priced if cost is not None]
    cost = f"${sum(known):.4f}" + (" and calls without a known price" if len(known) < len(priced) else "")
    brought = sum(step.tokens.output or 0 for step in steps if step.tokens)
    given = sum(_given(step.tokens) for step in steps if step.tokens)
    count = sum(bool(step.number) for step in steps)
    lost = sum(step.status != "ok" for step in steps)
    nothing = f"; {lost} call{'s' * (lost != 1)} brought nothing" if lost else ""
    return f"{count} step{'s' * (count != 1)}, {given:,} tokens in, {brought:,} out, {cost}{nothing}"


def _given(tokens: Tokens) -> int:
    return sum(part or 0 for part in (tokens.input_uncached, tokens.cache_read, tokens.cache_write))


def _step(sheet: Sheet, step: Step, named: bool, model: str) -> None:
    """named: say the role. model: where it is not the one of the step before."""
    facts = [step.role] if named else []
    facts += [*([model] if model else []), f"{step.seconds:.1f} s"]
    if step.tokens is not None:
        cached = f" ({step.tokens.cache_read:,} cached)" if step.tokens.cache_read else ""
        thought = f" ({step.tokens.reasoning:,} reasoning)" if step.tokens.reasoning else ""
        facts.append(f"{_given(step.tokens):,} tokens in{cached}, {step.tokens.output or 0:,} out{thought}")
        facts.append("no known price" if step.cost_usd is None else f"${step.cost_usd:.4f}")
    if step.retries:
        facts.append(f"{step.retries} retries")
    head = f"step {step.number}" if step.number else f"call {step.call}, {step.status}"
    sheet.title(head, "  ".join(facts), fg="cyan" if step.status == "ok" else "bright_red")
    for said in step.said:
        _said(sheet, said)
    if step.thought:
        sheet.block("thought", step.thought, _MOST_THOUGHT, fg="magenta")
    if step.text:
        sheet.block("says", step.text, _MOST_THOUGHT)
    for tool in step.tools:
        _tool(sheet, tool)
    if step.error or step.status != "ok":
        sheet.block("error", step.error or step.status, _MOST_SAID, fg="bright_red")
    if step.finish_reason in ("length", "max_tokens", "content_filter", "refusal"):
        sheet.block("ended", f"the answer ended by: {step.finish_reason}", 1, fg="bright_red")


def _said(sheet: Sheet, said: Said) -> None:
    if said.repeated:
        text = said.text.strip().split("\n", maxsplit=1)[0][:60]
        sheet.block(said.speaker, f"[as before: {text}…]", 1, dim=True)
    else:
        system = said.speaker == "system"
        sheet.block(said.speaker, said.text, _MOST_SYSTEM if system else _MOST_SAID, dim=system)


def _tool(sheet: Sheet, tool: ToolUse) -> None:
    sheet.block(
        "calls", f"{tool.name or 'a tool without a name'}{_arguments(tool.arguments)}", _MOST_THOUGHT, fg="cyan"
    )
    for text in tool.observations:
        sheet.block("result", text or "(nothing)", _MOST_RESULT)
    if not tool.observations:
        sheet.block("result", "(not told to the model)", 1, dim=True)


def _arguments(written: str) -> str:
    """Arguments as people read them: a single text in the lines it has, several by name."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return f" {written}" if written else ""
    if not isinstance(found, dict):
        return f" {written}"
    parts = [f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in found.items()]
    if len(parts) == 1 and "\n" not in parts[0]:
        return f"  {parts[0]}"
    return "".join(f"\n{part.rstrip()}" for part in parts)
