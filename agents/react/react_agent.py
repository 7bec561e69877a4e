"""A ReAct loop: ask the model, do what it calls for, show it what happened, until it submits.

Standard library only. Ends with 0: submitted; 1: the model cannot be reached; 3: a limit of the run is used up;
4: gave up.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chat_model import Answer, ChatModel, Message
from processes import Processes
from prompts import NO_TOOL_CALL, SYSTEM
from shared.chat_model import Connection, LimitUsedUp, ModelUnreachable
from shared.events import Events
from tool_belt import Submitted, ToolBelt

SUBMITTED, UNREACHABLE, LIMITED, GAVE_UP = 0, 1, 3, 4
MOST_STEPS = 50
FEW_STEPS = 5
MOST_IDLE_ANSWERS = 3
"""Answers in a row without a tool call, after which the model has nothing more to do."""


@dataclass(frozen=True)
class Settings:
    """What the runner says through the environment."""

    task: str
    model: str
    base_url: str
    key: str
    steps: int
    deadline: float
    out: Path
    cache_marks: bool = False
    """For models of providers that cache only what is marked; others refuse the marks."""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Settings:
        with open(environment["BENCH_TASK_FILE"], encoding="utf-8", newline="") as task:
            text = task.read()
        return cls(
            task=text,
            model=environment["BENCH_MODEL"],
            base_url=environment["OPENAI_BASE_URL"],
            key=environment["OPENAI_API_KEY"],
            steps=int(environment.get("BENCH_MAX_STEPS") or MOST_STEPS),
            deadline=float(environment.get("BENCH_DEADLINE") or "inf"),
            out=Path(environment["BENCH_OUT_DIR"]),
            cache_marks=environment.get("REACT_CACHE_MARKS") == "1",
        )


class Loop:
    """One conversation about one task."""

    def __init__(self, settings: Settings, model: ChatModel, tools: ToolBelt, events: Events) -> None:
        self._settings = settings
        self._model = model
        self._tools = tools
        self._events = events
        # The task is passed on word for word as the first user message: replays recognise it there.
        self._messages: list[Message] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": settings.task},
        ]

    def run(self) -> int:
        idle = 0
        # One call more than the run allows: it is refused, which puts the limit on record as what ended the work.
        calls = self._settings.steps + 1 if self._settings.steps <= MOST_STEPS else MOST_STEPS
        for step in range(1, calls + 1):
            if time.time() >= self._settings.deadline:
                return self._end(GAVE_UP, "the time is over")
            try:
                answer = self._model.complete(self._messages, self._tools.schemas())
            except LimitUsedUp as limit:
                return self._end(LIMITED, str(limit))
            except ModelUnreachable as error:
                return self._end(UNREACHABLE, str(error))
            self._events.write("answer", step=step, content=answer.content, calls=answer.raw_calls, usage=answer.usage)
            self._messages.append(answer.as_message())
            idle = 0 if answer.calls else idle + 1
            if idle == MOST_IDLE_ANSWERS:
                return self._end(GAVE_UP, f"{idle} answers in a row without a tool call")
            try:
                self._observe(step, answer)
            except Submitted as submitted:
                return self._end(SUBMITTED, str(submitted))
        return self._end(GAVE_UP, f"all {MOST_STEPS} steps are used")

    def _observe(self, step: int, answer: Answer) -> None:
        for call in answer.calls:
            observation = self._tools.use(call.name, call.arguments) + self._warning(step)
            self._events.write("observation", step=step, tool=call.name, text=observation)
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": observation})
        if not answer.calls:
            self._events.write("nudge", step=step)
            self._messages.append({"role": "user", "content": NO_TOOL_CALL})

    def _warning(self, step: int) -> str:
        left = min(self._settings.steps, MOST_STEPS) - step
        return f"\n[{left} more answers; submit before they are used up]" if left <= FEW_STEPS else ""

    def _end(self, status: int, reason: str) -> int:
        self._events.write("end", status=status, reason=reason)
        print(f"react: {reason}", file=sys.stderr)
        return status


def main() -> int:
    settings = Settings.read(os.environ)
    events = Events(settings.out / "trace.jsonl")
    events.write("start", model=settings.model, steps=settings.steps, task_characters=len(settings.task))
    processes = Processes(settings.out, settings.deadline)
    try:
        tools = ToolBelt(Path.cwd(), processes)
        model = ChatModel(Connection(settings.base_url, settings.key), settings.model, cache_marks=settings.cache_marks)
        return Loop(settings, model, tools, events).run()
    finally:
        processes.end_all()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (KeyError, ValueError, OSError) as error:
        sys.exit(f"react: cannot start or go on: {type(error).__name__}: {error}")
