"""What the index reads of a stored line: typed while it is parsed, so that a whole branch takes minutes.

This is a cheap check and not the full one. Checked are: JSON is whole, every field below is there unless it has a
default, and has its type, closed lists are closed, times exist, and only a graded cell has a score. Not checked are:
fields that the index does not read, patterns of names and digests, bounds of numbers, unknown fields. `results verify`
checks all of it.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from bench.base.errors import UserError
from bench.formats.model_usage import CostStatus
from bench.formats.older_records import migrated
from bench.formats.record import RECORD_SCHEMA, Outcome, Profile, SeedSource, StopReason

# What a column of 64-bit numbers can take: one larger number would end the build of the whole index.
_Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_SeedText = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,32}$")]
_Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class _Part(msgspec.Struct, gc=False):
    """A part of a line; what is not named here is passed over."""


class AgentPart(_Part):
    id: str
    digest: str
    commit: str = ""
    ranked: bool = True


class CasePart(_Part):
    id: str
    category: str
    title: str
    digest: str


class CheckPart(_Part):
    id: str
    weight: float
    required: bool
    guard: bool
    value: float
    seconds: float
    message: str = ""
    origin: str = "case"


class MetricPart(_Part):
    name: str
    value: float | None
    unit: str = ""


class HeadlinePart(_Part):
    name: str
    direction: Literal["higher", "lower"]
    baseline: float
    target: float
    unit: str = ""
    bar: float | None = None


class ClaimPart(_Part):
    name: str
    claimed: float | None
    measured: float | None
    overclaim: bool


class NotePart(_Part):
    name: str


class TokensPart(_Part):
    input_uncached: _Int | None = 0
    cache_read: _Int | None = 0
    cache_write: _Int | None = 0
    output: _Int | None = 0
    reasoning: _Int | None = 0


class UsagePart(_Part):
    model: str
    role: str = "main"
    calls: _Int = 0
    failed_calls: _Int = 0
    refused_calls: _Int = 0
    retries: _Int = 0
    tokens: TokensPart = msgspec.field(default_factory=TokensPart)
    cost_usd: float | None = 0.0
    price_version: str = ""
    at_risk_usd: float = 0.0
    waited_s: float = 0.0


class PhasePart(_Part):
    name: Literal["prepare", "agent", "snapshot", "judge"]
    seconds: float


class MachinePart(_Part):
    fingerprint: str
    cpu: str
    cores: _Int
    memory_mb: _Int
    gpu: str = ""


class SequentialPart(_Part):
    cases: _Int
    boundaries: list[float]
    exclusions: list[float]
    margin: float
    drop: float


class ProvenancePart(_Part):
    bench_version: str
    run: str
    sandbox: str
    isolated: bool
    bench_commit: str = ""
    dirty: bool = False
    judge: str = ""
    suite: str = ""
    suite_version: str = ""
    run_url: str = ""
    workflow: str = ""
    sequential: SequentialPart | None = None


class HelpPart(_Part):
    by: Literal["person", "scripted"]


class Line(_Part):
    """One record, as far as the index knows it."""

    schema: Literal[1]
    cell: str
    agent: AgentPart
    case: CasePart
    profile: Profile
    trial: _Int
    seed: _Int
    outcome: Outcome
    started: _Instant
    finished: _Instant
    machine: MachinePart
    limits: msgspec.Raw
    provenance: ProvenancePart
    models: dict[str, str] = {}
    arm: Literal["", "base", "head"] = ""
    seed_source: SeedSource = ""
    judge_seed: _Int | _SeedText | None = None
    stop_reason: StopReason | None = None
    cause: str = ""
    error: str = ""
    success: bool | None = None
    score: float | None = None
    checks: list[CheckPart] = []
    metrics: list[MetricPart] = []
    headline: HeadlinePart | None = None
    claims: list[ClaimPart] = []
    overclaims: _Int = 0
    failure_modes: list[NotePart] = []
    flags: list[NotePart] = []
    usage: list[UsagePart] = []
    cost_usd: float | None = 0.0
    cost_status: CostStatus = "none"
    steps: _Int = 0
    phases: list[PhasePart] = []
    limits_hit: list[str] = []
    tries: list[msgspec.Raw] = []
    help: HelpPart | None = None


@cache
def _decoder() -> msgspec.json.Decoder[Line]:
    return msgspec.json.Decoder(Line)


def parse_line(line: bytes) -> Line | None:
    """A stored line of a schema that can be read; None for one that is not a record."""
    try:
        found = _decoder().decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _older(line)
    return found if _is_sound(found) else None


def _older(line: bytes) -> Line | None:
    """A line of the previous schema, in the form of the current one."""
    try:
        document: Any = json.loads(line)
        if not isinstance(document, dict) or document.get("schema") == RECORD_SCHEMA:
            return None
        found = _decoder().decode(json.dumps(migrated(document, "")).encode())
    except (UserError, ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError):
        return None
    return found if _is_sound(found) else None


def _is_sound(line: Line) -> bool:
    scored = line.score is not None and line.success is not None and line.stop_reason is not None
    of_its_arm = not line.arm or line.cell.endswith(f"/{line.arm}")
    return of_its_arm and scored == (line.outcome == "graded")
