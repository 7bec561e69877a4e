"""Records for tests: whole and valid, with only what a test cares about spelt out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.base.files import sha256_bytes
from bench.formats.case_metric import Scale
from bench.formats.model_usage import CostStatus, ModelUsage, Tokens
from bench.formats.note import Note
from bench.formats.provenance import LimitsSet, Machine, Provenance
from bench.formats.record import AgentRef, CaseRef, CheckResult, Claim, Metric, Outcome, Phase, Profile, Record

START = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
SONNET = "anthropic/claude-sonnet-4-5"
GPT = "openai/gpt-5-mini"


def instant(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_check(name: str = "loss_is_finite", value: float = 1.0, message: str = "", **changes: object) -> CheckResult:
    facts: dict[str, object] = {
        "id": name,
        "about": f"The work shows that {name.replace('_', ' ')}.",
        "weight": 2.0,
        "required": True,
        "guard": False,
        "value": value,
        "message": message or ("" if value >= 1 else f"{name}: expected 1.0"),
        "seconds": 0.2,
    }
    return CheckResult.model_validate(facts | changes)


MACHINE = Machine(
    fingerprint="linux-x86_64-2c-8g", system="Linux 6.1", cpu="x86_64", cores=2, memory_mb=7900, python="3.11.7"
)
LIMITS = LimitsSet(
    agent_s=600, grade_s=120, memory_mb=4096, cpus=1, processes=256, disk_mb=1024, output_mb=10, steps=50, cost_usd=2.0
)


ACCURACY = Scale(name="accuracy", direction="higher", baseline=0.62, target=0.92, bar=0.1)


def make_usage(model: str, steps: int, cost_usd: float | None, cost_status: CostStatus) -> ModelUsage:
    tokens = Tokens(input_uncached=900 * steps, cache_read=4000 * steps, output=350 * steps)
    return ModelUsage(
        model=model,
        calls=steps,
        tokens=tokens,
        cost_usd=cost_usd,
        cost_status=cost_status,
        price_version="litellm 1.80.0",
    )


def make_phases(started: datetime, agent_seconds: float) -> list[Phase]:
    return [
        Phase(name="prepare", start=instant(started), seconds=1.5),
        Phase(name="agent", start=instant(started + timedelta(seconds=2)), seconds=agent_seconds),
        Phase(name="judge", start=instant(started + timedelta(seconds=2 + agent_seconds)), seconds=4.0),
    ]


def make_provenance(run: str) -> Provenance:
    return Provenance(
        bench_version="0.1.0",
        bench_commit="4f0c1d2",
        suite="mini",
        suite_version="1",
        run=run,
        sandbox="bubblewrap",
        isolated=True,
        packages={"torch": "2.6.0"},
    )


def make_record(
    *,
    agent: str = "react",
    model: str | None = SONNET,
    case: str = "nan_loss_debug",
    category: str = "debugging",
    title: str = "",
    case_version: int = 1,
    agent_version: int = 1,
    ranked: bool = True,
    profile: Profile = "mini",
    trial: int = 1,
    outcome: Outcome = "graded",
    checks: Sequence[CheckResult] | None = None,
    run: str = "night-1",
    started: datetime = START,
    agent_seconds: float = 90.0,
    cost_usd: float | None = 0.12,
    cost_status: CostStatus = "simulated",
    steps: int = 8,
    **changes: object,
) -> Record:
    """One record; any field of `Record` can be given by name."""
    graded = outcome == "graded"
    shown = list(checks if checks is not None else [make_check()]) if graded else []
    weight = sum(check.weight for check in shown)
    score = sum(check.weight * check.value for check in shown) / weight if weight else 0.0
    usage = [] if model is None else [make_usage(model, steps, cost_usd, cost_status)]
    facts: dict[str, object] = {
        "schema": 1,
        "cell": f"{agent}/{model or '-'}/{case}/{profile}/{trial}",
        "agent": AgentRef(id=agent, digest=sha256_bytes(f"{agent} {agent_version}".encode()), ranked=ranked),
        "case": CaseRef(
            id=case,
            category=category,
            title=title or case.replace("_", " ").capitalize(),
            digest=sha256_bytes(f"{case} {case_version}".encode()),
        ),
        "models": {} if model is None else {"main": model},
        "profile": profile,
        "trial": trial,
        "seed": 1000 + trial,
        "judge_seed": 77 if graded else None,
        "outcome": outcome,
        "stop_reason": "finished" if graded else None,
        "cause": "" if graded else "provider_down",
        "error": "" if graded else "the provider answered 503 six times",
        "success": all(check.passed for check in shown if check.required) if graded else None,
        "score": score if graded else None,
        "checks": shown,
        "usage": usage,
        "cost_usd": cost_usd if model else 0.0,
        "cost_status": cost_status if model else "none",
        "steps": steps if model else 0,
        "phases": make_phases(started, agent_seconds),
        "started": instant(started),
        "finished": instant(started + timedelta(seconds=agent_seconds + 6)),
        "machine": MACHINE,
        "limits": LIMITS,
        "provenance": make_provenance(run),
    }
    return Record.model_validate(facts | changes)


def without_isolation(record: Record) -> Record:
    """The record, as if its cell had run in the sandbox `process`."""
    said = record.provenance.model_copy(update={"sandbox": "process", "isolated": False})
    return record.model_copy(update={"provenance": said})


def make_claim(claimed: float | None = 0.95, measured: float = 0.71) -> Claim:
    return Claim(
        name="accuracy",
        claimed=claimed,
        measured=measured,
        tolerance=0.02,
        overclaim=claimed is not None and claimed > measured + 0.02,
    )


def make_note(name: str = "tampering", evidence: str = "test_model.py was changed") -> Note:
    return Note(name=name, evidence=evidence)


def make_night(run: str = "night-1", started: datetime = START, seed: int = 7) -> list[Record]:
    """A night of records as the real thing would bring them: good agents and poor ones, losses, lies and accidents."""
    rng = random.Random(seed)
    records: list[Record] = []
    for agent, model, skill, price in _FIELD:
        for number, (case, category, title, checks, ease) in enumerate(_CASES):
            for trial in (1, 2):
                cell: dict[str, Any] = {
                    "agent": agent,
                    "model": model,
                    "case": case,
                    "category": category,
                    "title": title,
                    "trial": trial,
                    "run": run,
                    "started": started + timedelta(minutes=7 * len(records) % 300),
                }
                reference = {"oracle": 1.0, "nop": 0.0}.get(agent)
                chance = reference if reference is not None else min(0.97, skill * ease)
                if reference is None and rng.random() < 0.03:
                    records.append(make_record(**cell, outcome="infra", ranked=True))
                    continue
                results = [
                    make_check(
                        name,
                        1.0 if rng.random() < chance else rng.choice([0.0, 0.0, 0.4]) * (agent != "nop"),
                        weight=weight,
                        required=required,
                        guard=weight == 0,
                    )
                    for name, weight, required in checks
                ]
                if agent == "nop":
                    results = [
                        check.model_copy(update={"value": 1.0, "message": ""}) if check.guard else check
                        for check in results
                    ]
                accuracy = round(rng.uniform(0.6, 0.7) + 0.22 * chance, 4)
                lies = agent == "aide" and number % 3 == 0
                lost = not all(check.passed for check in results if check.required)
                slow = lost and rng.random() < 0.4
                records.append(
                    make_record(
                        **cell,
                        ranked=reference is None,
                        checks=results,
                        steps=rng.randint(4, 28),
                        agent_seconds=round(rng.uniform(20, 400), 1) if reference is None else 3.0,
                        cost_usd=round(price * rng.uniform(0.5, 1.8), 4),
                        cost_status="simulated",
                        metrics=[Metric(name="accuracy", value=accuracy)] if category == "training" else [],
                        headline=ACCURACY if category == "training" else None,
                        claims=[make_claim(round(accuracy + 0.15, 4), accuracy)] if lies else [],
                        overclaims=int(lies),
                        failure_modes=[make_note("no_progress", "the last 9 steps changed no file")] if slow else [],
                        flags=[make_note()] if lies and trial == 2 else [],
                        stop_reason="step_limit" if slow else "finished",
                        limits_hit=["steps"] if slow else [],
                    )
                )
    return records


_FIELD = [
    ("react", SONNET, 0.92, 0.14),
    ("react", GPT, 0.74, 0.03),
    ("openhands", SONNET, 0.97, 0.36),
    ("aide", GPT, 0.66, 0.08),
    ("single_shot", GPT, 0.45, 0.011),
    ("oracle", None, 1.0, 0.0),
    ("nop", None, 0.0, 0.0),
]
_CASES = [
    (
        "nan_loss_debug",
        "debugging",
        "The loss runs away",
        [("outputs_present", 1.0, True), ("loss_stays_finite", 3.0, True), ("tests_untouched", 0.0, False)],
        0.98,
    ),
    (
        "shape_mismatch_train",
        "debugging",
        "Layers that do not fit together",
        [("forward_runs", 1.0, True), ("gradients_flow", 2.0, True)],
        1.0,
    ),
    (
        "lora_from_scratch",
        "implementation",
        "Write a low-rank adapter and prove it starts as the identity",
        [("starts_as_identity", 2.0, True), ("only_adapter_trains", 2.0, True), ("merges_exactly", 1.0, False)],
        0.8,
    ),
    (
        "vq_layer",
        "implementation",
        "A quantising layer with straight-through gradients",
        [("codes_are_nearest", 2.0, True), ("gradient_passes_through", 2.0, True)],
        0.7,
    ),
    (
        "noisy_label_training",
        "training",
        "Beat the baseline although a fifth of the labels is wrong",
        [("model_loads", 1.0, True), ("accuracy_on_hidden", 4.0, True)],
        0.6,
    ),
    (
        "house_price",
        "training",
        "House prices",
        [("submission_is_complete", 1.0, True), ("error_on_hidden", 3.0, True)],
        0.75,
    ),
    (
        "dataset_from_mirror",
        "datasets",
        "Fetch a set in pieces and mend the broken one",
        [("rows_complete", 2.0, True), ("digest_matches", 2.0, True)],
        0.9,
    ),
]
