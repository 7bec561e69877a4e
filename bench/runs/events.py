"""Writing the course of a run to a file of events, line by line as it happens."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from bench import __version__
from bench.base.errors import UserError
from bench.base.times import now
from bench.formats import events
from bench.formats.plan import Cell, RunPlan
from bench.formats.record import Record, Try
from bench.gateway import CallLine
from bench.report import reasons
from bench.runs.observer import RunObserver

_FIRST_BYTES = 20_000
_MOST_TOOLS = 20


class EventLog(RunObserver):
    """An observer that writes events and passes everything on to another one. Close it by leaving its block."""

    def __init__(self, path: Path, to: RunObserver) -> None:
        super().__init__()
        self._to = to
        self._path = path
        self._file = _open(path)
        self._lock = threading.Lock()
        self._run = ""
        self._began = time.monotonic()
        self._ended: list[Record] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run:
            interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
            self._end("done" if kind is None else "interrupted" if interrupted else "failed")
        self._close()

    def expect(self, total: int) -> None:
        self._to.expect(total)

    def start(self, plan: RunPlan, folder: Path) -> None:
        if self._run:
            self._end("done")
        self._run, self._began, self._ended = plan.run, time.monotonic(), []
        self._write(
            events.RunStarted, folder=str(folder), cells=len(plan.cells), sandbox=plan.sandbox, suite=plan.suite,
            suite_version=plan.suite_version, bench_version=__version__,
        )  # fmt: skip
        self._to.start(plan, folder)

    def begin(self, cell: Cell) -> None:
        limits = cell.case.spec.limits
        self._write(
            events.CellStarted, cell=cell.id, agent=cell.agent.id, case=cell.case.id, models=cell.models,
            profile=cell.profile, trial=cell.trial, arm=cell.arm, steps_limit=limits.steps,
            seconds_limit=limits.agent_s, cost_limit_usd=limits.cost_usd,
        )  # fmt: skip
        self._to.begin(cell)

    def phase(self, cell: Cell, name: str, seconds: float | None) -> None:
        state = "began" if seconds is None else "ended"
        self._write(events.PhaseChanged, cell=cell.id, phase=name, state=state, seconds=seconds)
        self._to.phase(cell, name, seconds)

    def call(self, cell: Cell, line: CallLine) -> None:
        self._write(
            events.StepMade, cell=cell.id, call=line.seq, role=line.role, model=line.answered_by or line.model,
            protocol=line.protocol, status=line.status, tokens=line.tokens, cost_usd=line.cost_usd,
            seconds=line.seconds, retries=line.retries, tools=_tools(line), code=line.code, error=_cut(line.error),
        )  # fmt: skip
        self._to.call(cell, line)

    def limit(self, cell: Cell, name: str, evidence: str) -> None:
        self._write(events.LimitMet, cell=cell.id, limit=name, text=_cut(evidence))
        self._to.limit(cell, name, evidence)

    def retry(self, cell: Cell, lost: Try) -> None:
        self._write(events.TryLost, cell=cell.id, cause=lost.cause, text=_cut(lost.message))
        self._to.retry(cell, lost)

    def asking(self, cell: str) -> contextlib.AbstractContextManager[None]:
        return self._to.asking(cell)

    def fetching(self, name: str, done: int, total: int) -> None:
        self._to.fetching(name, done, total)

    def building(self, agent: str, line: str, *, news: bool) -> None:
        self._write(events.Building, agent=agent, text=_cut(line))
        self._to.building(agent, line, news=news)

    def end(self, record: Record, kept: bool) -> None:
        self._ended.append(record)
        for check in [] if kept else record.checks:
            self._write(
                events.CheckJudged, cell=record.cell, check=check.id, passed=check.passed, value=check.value,
                weight=check.weight, required=check.required, guard=check.guard, message=_cut(check.message),
            )  # fmt: skip
        self._write(
            events.CellEnded, cell=record.cell, kept=kept, outcome=record.outcome, success=record.success,
            score=record.score, stop_reason=record.stop_reason, cause=record.cause, error=_cut(record.error),
            why=[_cut(str(it)) for it in reasons(record)], failure_modes=[it.name for it in record.failure_modes],
            flags=[it.name for it in record.flags], steps=record.steps, cost_usd=record.cost_usd,
            cost_status=record.cost_status, seconds=round(sum(it.seconds for it in record.phases), 3),
        )  # fmt: skip
        self._to.end(record, kept)

    def note(self, line: str) -> None:
        self._write(events.Told, text=_cut(line))
        self._to.note(line)

    def tick(self) -> None:
        self._to.tick()

    def _end(self, state: str) -> None:
        graded = [record for record in self._ended if record.outcome == "graded"]
        costs = [record.cost_usd for record in self._ended]
        self._write(
            events.RunEnded, state=state, cells=len(self._ended), graded=len(graded),
            succeeded=sum(bool(record.success) for record in graded), steps=sum(it.steps for it in self._ended),
            cost_usd=None if None in costs else round(sum(it or 0 for it in costs), 8),
            seconds=round(time.monotonic() - self._began, 3),
        )  # fmt: skip

    def _write(self, kind: type[events.AnyEvent], **facts: Any) -> None:
        line = events.event_line(kind(time=now(), run=self._run, **facts))
        with self._lock:
            if self._file < 0:
                return
            try:
                # One call a line: a reader, and whoever is killed, meets at most a part of the last line.
                written = os.write(self._file, line)
            except OSError as error:
                self._give_up(str(error.strerror))
                return
            if written < len(line):
                self._give_up("not all of an event was taken")

    def _give_up(self, fault: str) -> None:
        """The run is worth more than what is told of it."""
        self._close()
        self._to.note(f"no more events are written: {self._path}: {fault}")

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _open(path: Path) -> int:
    """Append to `path`, which is new, a file of events, or not a file (a pipe); raises `UserError`."""
    remedy = "name another file with --events"
    try:
        if path.is_file():
            _require_events(path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", where=path, remedy=remedy) from None


def _require_events(path: Path) -> None:
    with path.open("rb+") as file:
        first = file.readline(_FIRST_BYTES)
        if first:
            try:
                events.Event.model_validate_json(first)
            except ValidationError:
                remedy = "name another file with --events"
                raise UserError("exists and is not a file of events", where=path, remedy=remedy) from None
        # A full disk may have left a part of a line, and a kill too: the kernel ends its write between two pages.
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _FIRST_BYTES))
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(size - len(tail) + tail.rfind(b"\n") + 1)


def _tools(line: CallLine) -> list[str]:
    message = line.answer if isinstance(line.answer, dict) else {}
    calls = message.get("tool_calls")
    found = [it.get("function") for it in calls if isinstance(it, dict)] if isinstance(calls, list) else []
    return [str(it.get("name"))[:200] for it in found if isinstance(it, dict)][:_MOST_TOOLS]


def _cut(text: str) -> str:
    return text if len(text) <= events.LONGEST else f"{text[: events.LONGEST - 1]}…"
