"""Runs a program and writes what it says of its own use to `usage.json`. Standard library only.

    python report_usage.py PROGRAM -- COMMAND...      as agents' run.sh start it; ends with the command's status

The program's standard output goes through unchanged. Each line that tells of tokens or dollars changes the file at
once, so that a run that is ended at a limit has a count, too. The gateway's own count never depends on this.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

Count = dict[str, float]
"""Fields of `usage.json`; see docs/adding-an-agent.md."""
_REST_S = 5.0
"""For the rest of the output: a process that the program has left behind may hold it open."""
_LONGEST_LINE = 4 << 20
_AIDER = re.compile(
    r"^Tokens: ([0-9.]+k?) sent(?:, ([0-9.]+k?) cache write)?(?:, ([0-9.]+k?) cache hit)?, ([0-9.]+k?) received"
)
_AIDER_COST = re.compile(r"\$([0-9.]+) session\.")
_VIBE = re.compile(r'"tokenUsage":(\{[^{}]*\})')


def claude_code(count: Count, line: str) -> Count:
    """The last event has the sums of all models, subagents and helpers included."""
    event = _event(line)
    if event.get("type") != "result":
        return count
    models = list(event["modelUsage"].values())
    fresh = sum(it["inputTokens"] + it["cacheCreationInputTokens"] for it in models)
    cached = sum(it["cacheReadInputTokens"] for it in models)
    output = sum(it["outputTokens"] for it in models)
    return _tokens(fresh + cached, cached, output) | {"cost_usd": event["total_cost_usd"]}


def codex(count: Count, line: str) -> Count:
    """The sums so far, at the end of each turn."""
    event = _event(line)
    if event.get("type") != "turn.completed":
        return count
    usage = event["usage"]
    return _tokens(usage["input_tokens"], usage["cached_input_tokens"], usage["output_tokens"])


def opencode(count: Count, line: str) -> Count:
    """An event for each call. Its dollars are 0 for a model of unknown price."""
    event = _event(line)
    if event.get("type") != "step_finish":
        return count
    tokens, cost = event["part"]["tokens"], event["part"]["cost"]
    cache = tokens["cache"]
    call = _tokens(
        tokens["input"] + cache["read"] + cache["write"], cache["read"], tokens["output"] + tokens["reasoning"]
    )
    return _add(count, call | {"calls": 1} | ({"cost_usd": cost} if cost else {}))


def qwen_code(count: Count, line: str) -> Count:
    """The last event has the sums."""
    event = _event(line)
    if event.get("type") != "result":
        return count
    usage = event["usage"]
    return _tokens(usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"])


def gemini_cli(count: Count, line: str) -> Count:
    """The last event has the sums, with thoughts in the total alone."""
    event = _event(line)
    if event.get("type") != "result":
        return count
    stats = event["stats"]
    return _tokens(stats["input_tokens"], stats["cached"], stats["total_tokens"] - stats["input_tokens"])


def aider(count: Count, line: str) -> Count:
    """A line of text for each message, with rounded numbers; dollars only for models of known price."""
    found = _AIDER.match(line)
    if found is not None:
        sent, _, hit, received = (_rounded(text) for text in found.groups())
        count = _add(count, _tokens(sent, hit, received))
    cost = _AIDER_COST.search(line)
    return count if cost is None else {**count, "cost_usd": float(cost[1])}


def mistral_vibe(count: Count, line: str) -> Count:
    """Nothing on standard output: the journals of its sessions, which are whole at the end, have sums."""
    if line:
        return count
    for session in sorted(Path(os.environ["VIBE_HOME"], "logs", "session", "unified").iterdir()):
        texts = [path.read_text("utf-8", "replace") for path in sorted(session.glob("journal/*.jsonl"))]
        if said := _VIBE.findall("".join(texts)):
            usage = json.loads(said[-1])
            count = _add(count, _tokens(usage["inputTokens"], usage["cachedInputTokens"], usage["outputTokens"]))
    return count


Reader = Callable[[Count, str], Count]
READERS: dict[str, Reader] = {
    it.__name__: it for it in (claude_code, codex, opencode, qwen_code, gemini_cli, aider, mistral_vibe)
}
"""From a count and a line of output, or an empty one at the end, to the new count."""


def _event(line: str) -> dict[str, Any]:
    found = json.loads(line) if line.startswith("{") else {}
    return found if isinstance(found, dict) else {}


def _tokens(total: float, cached: float, output: float) -> Count:
    return {"input_tokens": total, "cached_tokens": cached, "output_tokens": output}


def _add(one: Count, other: Count) -> Count:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _rounded(text: str | None) -> float:
    if not text:
        return 0
    return round(float(text.removesuffix("k")) * 1000) if text.endswith("k") else round(float(text))


class Report:
    """The count so far, as it stands in the file."""

    def __init__(self, reader: Reader, path: Path) -> None:
        self._reader = reader
        self._path = path
        self._count: Count = {}

    def hear(self, line: str) -> None:
        """Count what a line says; a line of another form says nothing."""
        try:
            count = self._reader(self._count, line)
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            return
        if count != self._count:
            self._count = count
            fresh = self._path.with_name(f".{self._path.name}.new")
            fresh.write_text(json.dumps(count) + "\n", encoding="utf-8")
            fresh.replace(self._path)


def pass_on(source: Any, report: Report) -> None:
    """Copy the program's output to our own, line by line."""
    while line := source.readline(_LONGEST_LINE):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        report.hear(line.decode("utf-8", "replace"))


def main(arguments: list[str]) -> int:
    name, _, *command = arguments
    report = Report(READERS[name], Path(os.environ["BENCH_OUT_DIR"], "usage.json"))
    program = subprocess.Popen(command, stdout=subprocess.PIPE)
    copying = threading.Thread(target=pass_on, args=(program.stdout, report), daemon=True)
    copying.start()
    status = program.wait()
    copying.join(_REST_S)
    report.hear("")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # A process that holds the output open must not keep us here.
    os._exit(code)
