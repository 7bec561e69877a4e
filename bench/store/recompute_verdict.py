"""Rules about the verdict: identity, checks, score, success, claims, and what explains a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from bench.formats.case_parts import Needs
from bench.formats.failures import FAILURES
from bench.formats.help import HELP_LOG
from bench.formats.record import CheckResult, Record
from bench.formats.seeds import is_replayed
from bench.formats.shortfall import invalid_submission, small_improvement
from bench.formats.verdict import (
    LIMIT_MODES,
    flags_of_tries,
    is_overclaim,
    no_improvement,
    overclaimed,
    stored_score,
    success_of,
)
from bench.store.sources import Basis, Rule, must_be

_ROUNDING = 1e-6
_BY_ITSELF = ("asked_user", "ended_before_job", "ended_early", "job_left_running")
_BY_STOPPING = {"crashed": ("crashed",), **dict.fromkeys(_BY_ITSELF, ("finished", "gave_up"))}
"""Failure modes that only these ends of the agent phase can have."""


def identity(record: Record, basis: Basis) -> Iterator[str]:
    spec = basis.case.spec
    for field, found, wanted in (
        ("case.category", record.case.category, spec.category),
        ("case.title", record.case.title, spec.title),
    ):
        if found != wanted:
            yield must_be(field, found, wanted, "case.yaml says so")
    if basis.ranked is None and record.agent.ranked:
        yield (
            "field `agent.ranked` is True, and neither the plan nor an agent's folder at the planned digest says so;"
            " give --agents the folder that holds the agent"
        )
    elif basis.ranked is not None and record.agent.ranked != basis.ranked:
        yield must_be("agent.ranked", record.agent.ranked, basis.ranked, "the agent was planned so")


def help_given(record: Record, basis: Basis) -> Iterator[str]:
    """The plan says who could be asked; a record whose agent could ask does not compete."""
    offer, said = basis.plan.help, record.help
    wanted = None if offer is None else (offer.by, offer.rules)
    found = None if said is None else (said.by, said.rules)
    if found != wanted:
        yield must_be("help", found, wanted, "the run was planned so")
    named = any(item.name == HELP_LOG for item in record.artifacts)
    if said is None:
        if named:
            yield must_be("help", None, "who was asked", f"{HELP_LOG} is one of its artifacts")
        return
    if record.agent.ranked:
        yield must_be("agent.ranked", True, False, "its agent could ask")
    if said.answered > said.questions:
        yield must_be("help.answered", said.answered, f"at most {said.questions}", "by the number of questions")
    if said.questions and not named:
        yield must_be("artifacts", f"without {HELP_LOG}", "with it", "questions were asked")


def outcome(record: Record, basis: Basis) -> Iterator[str]:
    if record.outcome == "graded":
        for field in ("cause", "error"):
            if getattr(record, field):
                yield must_be(field, getattr(record, field), "", "the cell is graded")
        if record.judge_seed is None:
            yield must_be("judge_seed", None, "a number", "the cell is graded")
        return
    failure = FAILURES.get(record.cause)
    if failure is None:
        yield must_be("cause", record.cause, "a row of the failure table")
    elif failure.outcome != record.outcome:
        yield must_be("outcome", record.outcome, failure.outcome, f"the cause is {record.cause}")
    elif not _possible(record, basis):
        yield must_be("cause", record.cause, "another one", "neither the case nor the run has what it is about")
    for field in ("checks", "metrics", "claims", "failure_modes", "limits_hit"):
        if getattr(record, field):
            yield must_be(field, f"{len(getattr(record, field))} entries", "empty", "the cell has no verdict")
    for field in ("judge_seed", "stop_reason"):
        if getattr(record, field) is not None:
            yield must_be(field, getattr(record, field), None, "the cell has no verdict")


def _possible(record: Record, basis: Basis) -> bool:
    """Whether what the cause is about exists at all."""
    spec = basis.case.spec
    several = bool(record.models) and len({(it.agent, it.agent_digest) for it in basis.plan.cells}) > 1
    there: dict[str, bool] = {
        "needs_missing": spec.needs != Needs(),
        "service_error": bool(spec.services),
        "gateway_error": bool(record.models),
        "run_limit": several,
        "quota_used_up": several,
        "cassette_miss": is_replayed(record.models),
    }
    return there.get(record.cause, True)


def checks(record: Record, basis: Basis) -> Iterator[str]:
    if record.outcome != "graded":
        return
    found = [check.id for check in record.checks]
    if basis.checks is None:
        if not found or len(set(found)) < len(found):
            yield must_be("checks", found, "one entry for each check of the case")
    elif found != (wanted := [check.id for check in basis.checks]):
        lacking, strange = [it for it in wanted if it not in found], [it for it in found if it not in wanted]
        faults = [f"lacks {', '.join(lacking)}"] if lacking else []
        faults += [f"has {', '.join(strange)}, which the case does not have"] if strange else []
        yield f"field `checks` {' and '.join(faults) or 'has another order, or one check twice'}"
    else:
        for check, declared in zip(record.checks, basis.checks, strict=True):
            for fact in ("about", "weight", "required", "guard", "origin"):
                if getattr(check, fact) != getattr(declared, fact):
                    field = f"checks.{check.id}.{fact}"
                    yield must_be(field, getattr(check, fact), getattr(declared, fact), "the case says so")
    for check in record.checks:
        yield from _one_check(check)


def _one_check(check: CheckResult) -> Iterator[str]:
    if check.guard and check.weight:
        yield must_be(f"checks.{check.id}.weight", check.weight, 0, "it is a guard")
    if check.value >= 1 and check.message:
        yield must_be(f"checks.{check.id}.message", check.message, "", "the check passed")


def milestones(record: Record, basis: Basis) -> Iterator[str]:
    wanted = basis.case.spec.milestones if record.outcome == "graded" else []
    if record.milestones != wanted:
        yield must_be("milestones", record.milestones, wanted, "case.yaml says so")


def headline(record: Record, basis: Basis) -> Iterator[str]:
    metric = basis.case.spec.metric if record.outcome == "graded" else None
    wanted = metric.scale if metric else None
    # A record of a program that did not know the field says nothing.
    if record.headline is not None and record.headline != wanted:
        yield must_be("headline", record.headline, wanted, "case.yaml says so")


def score(record: Record, basis: Basis) -> Iterator[str]:
    del basis
    if record.outcome != "graded" or record.score is None:
        return
    wanted = stored_score(record.checks)
    if abs(record.score - wanted) > _ROUNDING:
        yield must_be("score", record.score, wanted, "by the record's own checks")
    if record.success != success_of(record.checks):
        yield must_be("success", record.success, success_of(record.checks), "by the record's own checks")


def claims(record: Record, basis: Basis) -> Iterator[str]:
    del basis
    for field, names in (
        ("metrics", [it.name for it in record.metrics]),
        ("claims", [it.name for it in record.claims]),
    ):
        if len(set(names)) < len(names):
            yield must_be(field, names, "one entry a name")
    for claim in record.claims:
        wanted = is_overclaim(claim.claimed, claim.measured, claim.tolerance, claim.higher_is_better)
        if claim.overclaim != wanted:
            yield must_be(f"claims.{claim.name}.overclaim", claim.overclaim, wanted, "by claim, measurement, tolerance")
    over = sum(claim.overclaim for claim in record.claims)
    if record.overclaims != over:
        yield must_be("overclaims", record.overclaims, over, "by the record's own claims")


def flags(record: Record, basis: Basis) -> Iterator[str]:
    del basis
    if record.outcome != "graded":
        return
    notes = [(note.name, note.evidence) for note in record.flags]
    silent = bool(record.usage) and not any(role.calls for role in record.usage)
    derived = {
        "overclaimed": [overclaimed(claim) for claim in record.claims if claim.overclaim and claim.claimed is not None],
        **{
            name: [note.evidence for note in flags_of_tries(record.tries) if note.name == name]
            for name in ("retried_after_kill", "interrupted_at_work")
        },
    }
    for name, wanted in derived.items():
        found = [evidence for flag, evidence in notes if flag == name]
        if found != wanted:
            yield must_be(f"flags.{name}", found, wanted, "by the record's own parts")
    if silent != ("no_model_calls" in dict(notes)):
        yield must_be("flags.no_model_calls", not silent, silent, "by the record's own usage")
    yield from (f"field `flags.{name}` has no evidence" for name, evidence in notes if not evidence)


def failure_modes(record: Record, basis: Basis) -> Iterator[str]:
    if record.outcome != "graded":
        return
    modes = {note.name: note.evidence for note in record.failure_modes}
    if record.success:
        if modes:
            yield must_be("failure_modes", sorted(modes), [], "the cell is a success")
        return
    if len(modes) < len(record.failure_modes):
        yield must_be("failure_modes", [note.name for note in record.failure_modes], "one entry a name")
    yield from _modes_of_the_end(record, modes)
    derived = {
        "no_improvement": bool(no_improvement(basis.case.spec.metric, record.metrics)),
        "overclaimed": record.overclaims > 0,
        "tampered": any(flag.name == "tampered" for flag in record.flags),
    }
    if record.headline is not None:
        metric, absent = basis.case.spec.metric, "no_artifact" in modes
        derived["small_improvement"] = bool(small_improvement(metric, record.metrics))
        derived["invalid_submission"] = bool(invalid_submission(metric, record.metrics, record.checks, missing=absent))
    for name, wanted in derived.items():
        if (name in modes) != wanted:
            yield must_be(f"failure_modes.{name}", name in modes, wanted, "by the record's own parts")

    outputs = [check for check in record.checks if check.origin == "framework"]
    if "no_artifact" in modes and any(check.passed for check in outputs):
        yield must_be("failure_modes.no_artifact", True, False, "the check of the outputs passed")


def _modes_of_the_end(record: Record, modes: Mapping[str, str]) -> Iterator[str]:
    stop = str(record.stop_reason)
    found = sorted(set(LIMIT_MODES.values()) & modes.keys())
    wanted = [LIMIT_MODES[stop]] if stop in LIMIT_MODES else []
    if found != wanted:
        yield must_be("failure_modes", found, wanted, f"the agent phase ended with {stop}")
    if (stop == "crashed") != ("crashed" in modes):
        yield must_be("failure_modes.crashed", "crashed" in modes, stop == "crashed", f"the phase ended with {stop}")
    for name, ends in _BY_STOPPING.items():
        if name in modes and stop not in ends:
            yield must_be("stop_reason", stop, " or ".join(ends), f"the failure mode is {name}")


def artifacts(record: Record, basis: Basis) -> Iterator[str]:
    """Each lies in the cell's own folder of traces, under its own name: a copied record names another cell's."""
    from bench.formats.plan import slug_of

    del basis
    folder = f"traces/{slug_of(record.cell)}/"
    for item in record.artifacts:
        if item.place != folder + item.name:
            yield must_be("artifacts.place", item.place, folder + item.name, "it is a trace of this cell")
    twice = [place for place, count in Counter(item.place for item in record.artifacts).items() if count > 1]
    if twice:
        yield must_be("artifacts", twice[0], "one entry a file")


VERDICT_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.__name__: rule
        for rule in (
            identity,
            help_given,
            outcome,
            checks,
            milestones,
            headline,
            score,
            claims,
            flags,
            failure_modes,
            artifacts,
        )
    }
)
