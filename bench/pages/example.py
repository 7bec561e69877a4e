"""A year of made-up results, so that the design of a full board can be judged: invented agents on the real cases.

The numbers are drawn, and mean nothing. Every page of a site that is made from them says so.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bench.base.files import sha256_bytes
from bench.formats.model_usage import ModelUsage, Tokens
from bench.formats.note import Note
from bench.formats.provenance import LimitsSet, Machine, Provenance
from bench.formats.record import AgentRef, CaseRef, CheckResult, Claim, Phase, Record
from bench.pages.board import CaseInfo

ABOUT = "Invented agents and drawn numbers, made to show the design of a full board. Nothing here was measured."
TITLE = "An example year"
_END = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
_EVERY_DAY = 60
"""Days before the end with a night each; before them two nights a week."""
_LIMITS = LimitsSet(
    agent_s=1800, grade_s=300, memory_mb=8192, cpus=2, processes=256, disk_mb=4096, output_mb=10, steps=60, cost_usd=3.0
)
_MACHINE = Machine(
    fingerprint="example-2c-8g", system="Linux 6.1", cpu="example", cores=2, memory_mb=8192, python="3.11.9"
)


@dataclass(frozen=True)
class _Agent:
    """How an invented agent does."""

    name: str
    model: str
    skill: float
    usd: float
    """Mean dollars of a cell."""
    steps: tuple[tuple[float, float], ...] = ()
    """Share of the year from which its skill is changed by so much."""
    first: float = 0.0
    last: float = 1.0
    """Part of the year in which it runs."""
    share: float = 1.0
    """Of the cases it meets."""
    boasts: float = 0.1


_AGENTS = (
    _Agent("heron", "example/large-2", 0.62, 0.64, ((0.45, 0.07), (0.93, 0.06))),
    _Agent("heron", "example/small-2", 0.44, 0.07, ((0.45, 0.05),)),
    _Agent("magpie", "example/large-2", 0.55, 0.21, ((0.9, -0.12),), boasts=0.5),
    _Agent("sandpiper", "example/open-70b", 0.38, 0.032, ((0.7, 0.1),)),
    _Agent("dipper", "example/small-2", 0.3, 0.015),
    _Agent("kestrel", "example/large-1", 0.5, 1.4, last=0.86),
    _Agent("wren", "example/large-2", 0.6, 0.4, first=0.9, share=0.7),
    _Agent("control", "example/large-2", 0.48, 0.3, ((0.93, 0.05),)),
)
_FAILURES = ("no_progress", "debugging_wrong_place", "ended_early", "no_artifact", "training_did_not_improve")
_CHECKS = ("outputs_present", "runs_without_error", "behaves_as_asked", "result_is_good_enough")


def example_year(cases: Sequence[CaseInfo], seed: int = 7) -> list[Record]:
    """Records of a year of nights; the same for the same cases and seed."""
    rng = random.Random(seed)
    ease = {case.id: min(1.55, 0.25 + 1.4 * rng.random()) for case in cases}
    days = [day for day in range(365, 0, -1) if day <= _EVERY_DAY or day % 7 in (1, 4)]
    found = []
    for day in days:
        begun, part = _END - timedelta(days=day - 1), 1 - day / 365
        luck = rng.gauss(0, 0.03)
        for agent in _AGENTS:
            if agent.first <= part <= agent.last:
                skill = agent.skill + luck + sum(change for since, change in agent.steps if part >= since)
                found += [
                    _record(agent, case, begun, min(0.97, max(0.02, skill * ease[case.id])), part, rng)
                    for case in cases[: round(agent.share * len(cases))]
                ]
    return found


def _record(agent: _Agent, case: CaseInfo, begun: datetime, chance: float, part: float, rng: random.Random) -> Record:
    started = begun + timedelta(seconds=rng.randrange(12_000))
    seconds, steps = 40 + 900 * rng.random(), rng.randint(5, 48)
    version = sum(part >= since for since, _ in agent.steps)
    lost = rng.random() < 0.015
    facts: dict[str, object] = {
        "cell": f"{agent.name}/{agent.model}/{case.id}/mini/1",
        "agent": AgentRef(id=agent.name, digest=sha256_bytes(f"{agent.name} {version}".encode()), ranked=True),
        "case": CaseRef(id=case.id, category=case.category, title=case.title, digest=sha256_bytes(case.id.encode())),
        "models": {"main": agent.model},
        "profile": "mini",
        "trial": 1,
        "seed": rng.getrandbits(40),
        "started": _instant(started),
        "finished": _instant(started + timedelta(seconds=seconds + 20)),
        "machine": _MACHINE,
        "limits": _LIMITS,
        "provenance": Provenance(
            bench_version="example", suite="example", suite_version="1", run=f"example-{begun:%Y%m%d}",
            sandbox="bubblewrap", isolated=True,
        ),
        "phases": [Phase(name="agent", start=_instant(started), seconds=seconds)],
    }  # fmt: skip
    if lost:
        return Record.model_validate(
            {**facts, "outcome": "infra", "cause": "provider_down", "error": "the provider answered 503 six times"}
        )
    usd = agent.usd * (0.4 + 1.2 * rng.random())
    tokens = Tokens(input_uncached=700 * steps, cache_read=int(steps * 5200 * rng.random()), output=260 * steps)
    return Record.model_validate({**facts, **_verdict(agent, chance, rng), "steps": steps, "cost_usd": usd,
        "cost_status": "exact", "usage": [ModelUsage(model=agent.model, calls=steps, tokens=tokens, cost_usd=usd,
        cost_status="exact", price_version="example")]})  # fmt: skip


def _verdict(agent: _Agent, chance: float, rng: random.Random) -> dict[str, object]:
    good = rng.random() < chance
    reached = len(_CHECKS) if good else rng.randrange(len(_CHECKS))
    checks = [
        CheckResult(
            id=name, about=f"Made up: {name.replace('_', ' ')}.", weight=1 + at, required=True, guard=False,
            value=float(at < reached), message="" if at < reached else "made up: this check failed", seconds=0.4,
        )
        for at, name in enumerate(_CHECKS)
    ]  # fmt: skip
    weight = sum(check.weight for check in checks)
    claims = []
    if rng.random() < 0.25:
        over = rng.random() < agent.boasts
        claims = [Claim(name="accuracy", claimed=0.9 if over else 0.7, measured=0.7, tolerance=0.02, overclaim=over)]
    limited = not good and rng.random() < 0.2
    return {
        "outcome": "graded",
        "stop_reason": "time_limit" if limited else "finished",
        "judge_seed": rng.getrandbits(40),
        "success": good,
        "score": sum(check.weight * check.value for check in checks) / weight,
        "checks": checks,
        "claims": claims,
        "overclaims": sum(claim.overclaim for claim in claims),
        "failure_modes": [] if good else [Note(name=rng.choice(_FAILURES), evidence="made up")],
        "limits_hit": ["time_limit"] if limited else [],
    }


def _instant(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
