"""The course of a run as events: one JSON object a line, for programs that look on (docs/events.md)."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import Field, RootModel

from bench.base.model import Model
from bench.formats.model_usage import CostStatus, Tokens
from bench.formats.names import Instant
from bench.formats.record import Arm, Outcome, Profile, StopReason

LONGEST = 2000
"""Characters of a text; a longer one is cut, and its record has all of it."""


class _Happened(Model):
    schema_: Literal[1] = Field(1, alias="schema")
    time: Instant
    run: str


class RunStarted(_Happened):
    """The cells of a run begin, or go on."""

    event: Literal["run_started"] = "run_started"
    folder: str
    cells: int
    sandbox: str
    suite: str
    suite_version: str
    bench_version: str


class Building(_Happened):
    """What the build of an agent's environment does."""

    event: Literal["building"] = "building"
    agent: str
    text: str


class Told(_Happened):
    """Something that a user should know, such as a damaged file."""

    event: Literal["note"] = "note"
    text: str


class _OfCell(_Happened):
    cell: str
    """`agent/model/case/profile/trial`, and then the arm where there are two: unique within a run."""


class CellStarted(_OfCell):
    """A cell begins."""

    event: Literal["cell_started"] = "cell_started"
    agent: str
    case: str
    models: dict[str, str]
    profile: Profile
    trial: int
    arm: Arm = ""
    steps_limit: int
    seconds_limit: float
    cost_limit_usd: float | None


class PhaseChanged(_OfCell):
    """A phase of a cell's try begins or has ended."""

    event: Literal["phase"] = "phase"
    phase: Literal["prepare", "agent", "snapshot", "judge"]
    state: Literal["began", "ended"]
    seconds: float | None = None
    """Of a phase that has ended."""


class StepMade(_OfCell):
    """A model call has ended."""

    event: Literal["step"] = "step"
    call: int
    """Its number in the cell's calls.jsonl."""
    role: str
    model: str
    protocol: str
    status: Literal["ok", "failed", "refused", "abandoned", "probe"]
    tokens: Tokens | None
    """None: not known, or there were none."""
    cost_usd: float | None
    """None: no price is known, or there was nothing to pay."""
    seconds: float
    retries: int = 0
    tools: list[str] = []
    """Names of the tools that the model called."""
    code: str = ""
    error: str = ""


class LimitMet(_OfCell):
    """A limit has ended the agent phase; what the agent left is judged all the same."""

    event: Literal["limit"] = "limit"
    limit: StopReason
    text: str


class TryLost(_OfCell):
    """A try ended without a verdict, and the next one begins."""

    event: Literal["try_lost"] = "try_lost"
    cause: str
    text: str


class CheckJudged(_OfCell):
    """One check of a cell's verdict."""

    event: Literal["check"] = "check"
    check: str
    passed: bool
    value: float
    weight: float
    required: bool
    guard: bool
    message: str = ""


class CellEnded(_OfCell):
    """A cell has its record."""

    event: Literal["cell_ended"] = "cell_ended"
    kept: bool
    """It was finished before this start, and nothing ran."""
    outcome: Outcome
    success: bool | None
    score: float | None
    stop_reason: StopReason | None
    cause: str = ""
    error: str = ""
    why: list[str] = []
    """Why there is no success, the likeliest cause first."""
    failure_modes: list[str] = []
    flags: list[str] = []
    steps: int
    cost_usd: float | None
    cost_status: CostStatus
    seconds: float


class RunEnded(_Happened):
    """The command ends. A run that was killed has no such event."""

    event: Literal["run_ended"] = "run_ended"
    state: Literal["done", "interrupted", "failed"]
    cells: int
    """That ended, those included that were kept."""
    graded: int
    succeeded: int
    steps: int
    cost_usd: float | None
    """None: that of a cell is not known."""
    seconds: float


AnyEvent = (
    RunStarted
    | Building
    | Told
    | CellStarted
    | PhaseChanged
    | StepMade
    | LimitMet
    | TryLost
    | CheckJudged
    | CellEnded
    | RunEnded
)


class Event(RootModel[Annotated[AnyEvent, Field(discriminator="event")]]):
    """One line of a file of events."""


def event_line(event: AnyEvent) -> bytes:
    """One line of ASCII: no control character of an agent's reaches who prints it."""
    return json.dumps(event.model_dump(mode="json", by_alias=True), separators=(",", ":")).encode("ascii") + b"\n"
