"""Runs OpenHands on one task, headless, through the gateway of the benchmark.

Ends with 0: OpenHands says it is done; 1: it or its model failed; 4: it gave up (stuck, out of time, or it went on
talking without doing anything).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from openhands.sdk import LLM, Agent, Event, LocalConversation
from openhands.sdk.conversation import ConversationExecutionStatus as Status
from openhands.sdk.event import ActionEvent
from openhands.sdk.event.conversation_error import ConversationErrorEvent
from openhands.sdk.tool.builtins import FinishAction
from openhands.tools.preset.default import get_default_condenser, get_default_tools
from pydantic import SecretStr

DONE, FAILED, GAVE_UP = 0, 1, 4
MOST_NUDGES = 3
MARGIN_S = 15.0
"""Time to end in an orderly way before the sandbox does it."""
GO_ON = (
    "Please go on with the task on your own; nobody can answer questions. When it is complete, or when you cannot get "
    "any further, use the finish tool."
)


class Journal:
    """Every event as one line of JSON in BENCH_OUT_DIR."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self.finished = False
        self.error = ""

    def __call__(self, event: Event) -> None:
        self._file.write(event.model_dump_json(exclude_none=True) + "\n")
        self._file.flush()
        if isinstance(event, ActionEvent) and isinstance(event.action, FinishAction):
            self.finished = True
        if isinstance(event, ConversationErrorEvent):
            self.error = f"{event.code}: {event.detail}"


def make_agent(environment: os._Environ[str]) -> Agent:
    """OpenHands as its own preset for the command line makes it, but for the settings that differ here."""
    llm = LLM(
        model=f"openai/{environment['BENCH_MODEL']}",
        base_url=environment["OPENAI_BASE_URL"],
        api_key=SecretStr(environment["OPENAI_API_KEY"]),
        usage_id="agent",
        # The gateway repeats what is worth repeating; a second level would only multiply the waiting.
        num_retries=1,
        retry_min_wait=1,
        retry_max_wait=2,
        timeout=900,
        # OpenHands asks for much reasoning and a day of caching unless told otherwise; here every agent has the
        # provider's defaults.
        reasoning_effort=None,
        extended_thinking_budget=None,
        prompt_cache_retention=None,
        api_mode="chat",
        stream=False,
    )
    return Agent(
        llm=llm,
        tools=get_default_tools(enable_browser=False),
        system_prompt_kwargs={"cli_mode": True},
        condenser=get_default_condenser(llm.model_copy(update={"usage_id": "condenser"})),
    )


def converse(conversation: LocalConversation, journal: Journal, task: str) -> int:
    """Send the task and let it work; one that only talks is told to go on, three times."""
    conversation.send_message(task)
    for _ in range(MOST_NUDGES + 1):
        conversation.run()
        if journal.finished:
            return DONE
        if conversation.state.execution_status != Status.FINISHED:
            print(f"openhands: {conversation.state.execution_status.value}: {journal.error}", file=sys.stderr)
            return FAILED if conversation.state.execution_status == Status.ERROR else GAVE_UP
        conversation.send_message(GO_ON)
    return GAVE_UP


def report(conversation: LocalConversation, path: Path) -> None:
    """What OpenHands counted by itself: kept beside the gateway's count, never used for the record."""
    metrics = conversation.conversation_stats.get_combined_metrics()
    usage: Any = metrics.accumulated_token_usage
    counted = {
        "status": conversation.state.execution_status.value,
        "calls": len(metrics.token_usages),
        "usage": usage.model_dump() if usage is not None else None,
        "seconds": [round(latency.latency, 3) for latency in metrics.response_latencies],
    }
    path.write_text(json.dumps(counted, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    environment = os.environ
    out = Path(environment["BENCH_OUT_DIR"])
    task = Path(environment["BENCH_TASK_FILE"]).read_text(encoding="utf-8")
    journal = Journal(out / "events.jsonl")
    conversation = LocalConversation(
        agent=make_agent(environment),
        workspace=environment["BENCH_WORKSPACE"],
        # One more than the run allows: the gateway refuses it, which puts the limit on record as what ended the work.
        max_iteration_per_run=int(environment.get("BENCH_MAX_STEPS") or 50) + 1,
        callbacks=[journal],
        visualizer=None,
    )
    left = float(environment.get("BENCH_DEADLINE") or "inf") - time.time() - MARGIN_S
    clock = threading.Timer(min(max(left, 0.0), 1e6), conversation.pause)
    clock.daemon = True
    clock.start()
    try:
        return converse(conversation, journal, task)
    except Exception as error:
        print(f"openhands: {type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    finally:
        clock.cancel()
        report(conversation, out / "openhands.json")
        conversation.close()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Background threads of its libraries (telemetry, tools) must not hold the process open.
    os._exit(status)
