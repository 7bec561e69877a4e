"""Recomputing a record from its own parts: a table of rules, each a function that yields contradictions.

A rule compares what a field says with what it must be by the record's other fields, by the plan, by the case at its
planned digest and by the price table. It never trusts a field that can be worked out. What it cannot see is a lie that
is consistent with itself. The rules about the verdict are in `recompute_verdict`; here are those about what a cell took
and how it went.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType

from bench.base.errors import UserError
from bench.formats.failures import FAILURES, MAX_TRIES
from bench.formats.model_usage import ModelUsage, Tokens
from bench.formats.record import Phase, Record, Try
from bench.formats.seeds import REPLAY_PREFIX, is_replayed
from bench.formats.verdict import (
    CENT_PARTS,
    INTERRUPTED,
    KILLED,
    MOST_INTERRUPTED,
    interrupted_too_often,
    limits_hit,
    limits_of,
    passed_limits,
    total_cost,
    total_steps,
)
from bench.gateway import Prices
from bench.store.recompute_verdict import VERDICT_RULES
from bench.store.sources import Basis, Rule, must_be

_LITELLM = "litellm "
_PRICED = ("exact", "estimated", "simulated")
_ORDER = ("prepare", "agent", "snapshot", "judge")
_TOLERANCE_S = 1.0
"""Instants are cut to milliseconds; a person's attempt is timed by the time of day."""
_SETTING_UP_S = 600.0
"""What the agent phase may take beside the agent: its gateway, services and sandbox come up and end, in between the
gateway finds out whether its provider is down, and what the agent has left is moved."""
_SETTING_UP_SHARE = 0.1
SKEW_S = 300.0
"""By which the clocks of the machine that planned and of the one that ran may differ."""


def contradictions(record: Record, basis: Basis) -> Iterator[str]:
    """Each names a field, what it says and what it must be."""
    for rule in RULES.values():
        yield from rule(record, basis)


def roles(record: Record, basis: Basis) -> Iterator[str]:
    del basis
    found = {role.role: role.model for role in record.usage}
    if len(found) < len(record.usage):
        yield must_be("usage", [role.role for role in record.usage], "one entry a role")
    # A cell that was lost may have ended before its gateway did.
    elif found != record.models and (found or record.outcome == "graded"):
        yield must_be("usage", found, dict(record.models), "these are the cell's models")


def usage(record: Record, basis: Basis) -> Iterator[str]:
    del basis
    # Of a call under way when it broke there is no trace.
    broken = any(flag.name == "gateway_broken" for flag in record.flags)
    for role in record.usage:
        where = f"usage.{role.role}"
        tokens = role.tokens
        for part, whole in (("cache_write_1h", "cache_write"), ("reasoning", "output")):
            found, most = getattr(tokens, part), getattr(tokens, whole)
            if found is not None and most is not None and found > most:
                yield must_be(f"{where}.tokens.{part}", found, f"at most {most}", f"it is a part of {whole}")
        # A cost is worked out from all of them, and where a provider does not tell, from what was estimated.
        unknown = [part for part, found in tokens if found is None] if role.cost_status in _PRICED else []
        for part in unknown:
            yield must_be(f"{where}.tokens.{part}", None, "a number", f"its cost is {role.cost_status}")
        yield from _status(where, role, broken=broken)


def waiting(record: Record, basis: Basis) -> Iterator[str]:
    del basis
    agent = sum(phase.seconds for phase in record.phases if phase.name == "agent")
    for role in record.usage:
        if record.phases and role.waited_s > agent + _TOLERANCE_S:
            yield must_be(f"usage.{role.role}.waited_s", role.waited_s, f"at most {agent:g}", "the agent's phase")


def _status(where: str, role: ModelUsage, *, broken: bool) -> Iterator[str]:
    """The status of a cost follows from the model and from whether anything was used."""
    used = bool(role.calls) or role.tokens != Tokens()
    status = role.cost_status
    if used and status == "none":
        yield must_be(f"{where}.cost_status", status, "another one", "calls were made")
    if not used and status != "none" and not (role.failed_calls or broken):
        yield must_be(f"{where}.cost_status", status, "none", "no call was made")
    replayed = role.model.startswith(REPLAY_PREFIX)
    if status in _PRICED and replayed != (status == "simulated"):
        yield must_be(f"{where}.cost_status", status, "simulated" if replayed else "exact or estimated", role.model)
    if (role.cost_usd is None) != (status == "unknown"):
        yield must_be(f"{where}.cost_usd", role.cost_usd, "None if, and only if, the status is unknown")
    if status == "none" and role.cost_usd:
        yield must_be(f"{where}.cost_usd", role.cost_usd, 0.0, "no call was made")
    if status == "exact" and role.faults.get("usage_unknown"):
        yield must_be(f"{where}.cost_status", status, "estimated", "the provider did not say what a call used")


def prices(record: Record, basis: Basis) -> Iterator[str]:
    for role in record.usage:
        if role.cost_status == "none":
            continue
        where = f"usage.{role.role}"
        try:
            known = basis.prices(role)
        except UserError as error:
            yield f"field `{where}.cost_usd` cannot be recomputed: {error}"
            continue
        if role.cost_status == "unknown":
            yield from _unpriced(where, role, known, record)
        elif known is None:
            yield (
                f"field `{where}.price_version` is {role.price_version!r}, but no price of {role.model} is known here;"
                " install that version of the table, or name the prices in MLDB_PRICES"
            )
        elif role.price_version != known.version:
            yield must_be(f"{where}.price_version", role.price_version, known.version, "collect with the same prices")
        else:
            yield from _priced(where, role, known)


def _unpriced(where: str, role: ModelUsage, known: Prices | None, record: Record) -> Iterator[str]:
    if role.price_version:
        yield must_be(f"{where}.price_version", role.price_version, "", "its cost is unknown")
    if record.limits.cost_usd is not None:
        yield must_be(f"{where}.cost_status", role.cost_status, "another one", "only a run without a dollar limit may")
    ran_with = _LITELLM + record.provenance.packages.get("litellm", "")
    if known is not None and known.version == ran_with:
        yield must_be(f"{where}.cost_status", role.cost_status, "another one", f"{known.version} prices {role.model}")


def _priced(where: str, role: ModelUsage, known: Prices) -> Iterator[str]:
    cost = role.cost_usd or 0.0
    least, most = known.bounds(role.tokens)
    # Calls under way at the end are charged with their worst case, and are in no count of tokens.
    if role.failed_calls and role.cost_status != "exact":
        most = math.inf
    if not least - CENT_PARTS <= cost <= most + CENT_PARTS:
        exact = f"{least:.10g}" if least == most else f"{least:.10g} to {most:.10g}"
        yield must_be(f"{where}.cost_usd", cost, exact, f"its tokens at the prices of {known.version}")


def totals(record: Record, basis: Basis) -> Iterator[str]:
    del basis
    cost, status = total_cost(record.usage)
    if record.cost_status != status:
        yield must_be("cost_status", record.cost_status, status, "by the record's own usage")
    elif (cost is None) != (record.cost_usd is None) or abs((cost or 0) - (record.cost_usd or 0)) > CENT_PARTS:
        yield must_be("cost_usd", record.cost_usd, cost, "the sum over its roles")
    if record.steps != total_steps(record.usage):
        yield must_be("steps", record.steps, total_steps(record.usage), "the sum of its roles' calls")


def limits(record: Record, basis: Basis) -> Iterator[str]:
    wanted = limits_of(basis.case.spec.limits, cost_limited=record.limits.cost_usd is not None)
    for name in type(wanted).model_fields:
        if getattr(record.limits, name) != getattr(wanted, name):
            yield must_be(f"limits.{name}", getattr(record.limits, name), getattr(wanted, name), "case.yaml says so")
    hit = limits_hit(record.stop_reason) if record.stop_reason else []
    if record.limits_hit != hit:
        yield must_be("limits_hit", record.limits_hit, hit, f"the agent phase ended with {record.stop_reason}")
    if not record.models and record.stop_reason in ("cost_limit", "token_limit", "step_limit"):
        yield must_be("stop_reason", record.stop_reason, "another one", "the agent was given no model")
    for it in passed_limits(record.usage, wanted) if record.outcome == "graded" else ():
        # A last call may bill more than was set aside while another limit ends the agent; no step is granted beyond.
        if hit and (it.name in hit or it.name != "step_limit"):
            continue
        yield must_be(it.field, it.used, f"at most {it.limit}", f"the case's limit, and limits_hit lacks {it.name}")


def place(record: Record, basis: Basis) -> Iterator[str]:
    del basis
    said = record.provenance
    isolated = said.sandbox != "process"
    if said.isolated != isolated:
        yield must_be("provenance.isolated", said.isolated, isolated, f"the sandbox was {said.sandbox}")
    if bool(said.image) != (said.sandbox == "docker"):
        wanted = "the image's digest" if said.sandbox == "docker" else ""
        yield must_be("provenance.image", said.image, wanted, f"the sandbox was {said.sandbox}")


def seeds(record: Record, basis: Basis) -> Iterator[str]:
    secret = "secret" if basis.plan.seed_secret else "public"
    source = "recorded" if is_replayed(record.models) else secret
    if record.seed_source != source:
        yield must_be("seed_source", record.seed_source, source, "by its models and the plan's secret")
    if bool(record.seed_commitment) != (source == "secret"):
        wanted = "a digest" if source == "secret" else ""
        yield must_be("seed_commitment", record.seed_commitment, wanted, f"the seed is {source}")


def phases(record: Record, basis: Basis) -> Iterator[str]:
    names = [phase.name for phase in record.phases]
    if names != list(_ORDER[: len(names)]) or (record.outcome == "graded" and len(names) < len(_ORDER)):
        yield must_be("phases", names, list(_ORDER), "every phase of a graded cell, in this order")
        return
    at, what = _moment(record.started), "started"
    for phase in record.phases:
        start = _moment(phase.start)
        if start < at - _TOLERANCE_S:
            yield must_be(f"phases.{phase.name}.start", phase.start, f"not before the end of {what}")
        at, what = start + phase.seconds, phase.name
    if at > _moment(record.finished) + _TOLERANCE_S:
        yield must_be("finished", record.finished, f"not before the end of {what}")
    yield from _lengths({phase.name: phase for phase in record.phases}, record, basis)


def _lengths(found: Mapping[str, Phase], record: Record, basis: Basis) -> Iterator[str]:
    limits = basis.case.spec.limits
    most = limits.agent_s * (1 + _SETTING_UP_SHARE) + _SETTING_UP_S
    if "agent" in found and found["agent"].seconds > most and "time_limit" not in record.limits_hit:
        yield must_be(
            "phases.agent.seconds", found["agent"].seconds, f"at most {most:g}", "the case's limit is agent_s"
        )
    judging = sum(check.seconds for check in record.checks)
    if "judge" in found and judging > limits.cpus * found["judge"].seconds + _TOLERANCE_S:
        yield must_be("checks.seconds", round(judging, 3), f"at most {found['judge'].seconds:g}", "the judge's phase")


def tries(record: Record, basis: Basis) -> Iterator[str]:
    """Each start of a runner has `MAX_TRIES`; only a cause that another try may help leads to one."""
    at = _moment(basis.plan.created) - SKEW_S
    of_this_start = 0
    for number, earlier in enumerate(record.tries):
        where = f"tries.{number}"
        yield from _one_try(where, earlier)
        if _moment(earlier.at) < at:
            yield must_be(f"{where}.at", earlier.at, "not before the plan and the tries before it")
        at = _moment(earlier.at) - _TOLERANCE_S
        of_this_start = 0 if earlier.resumed else of_this_start + 1
        if of_this_start >= MAX_TRIES:
            yield must_be("tries", f"{of_this_start} without a new start", f"at most {MAX_TRIES - 1}")
            break
    if _moment(record.started) < at:
        yield must_be("started", record.started, "not before its earlier tries")
    killed = sum(earlier.cause == KILLED for earlier in record.tries) + (record.cause == KILLED)
    if killed > 1:
        yield must_be("tries", f"{killed} with the cause {KILLED}", "at most one", "the second is the agent's crash")
    stopped = sum(earlier.cause == INTERRUPTED for earlier in record.tries) + (record.cause == INTERRUPTED)
    if stopped > MOST_INTERRUPTED:
        most = f"at most {MOST_INTERRUPTED}"
        yield must_be("tries", f"{stopped} with the cause {INTERRUPTED}", most, "the agent is not started again")
    if interrupted_too_often(record.tries) and (record.success or record.stop_reason not in (None, "crashed")):
        yield must_be("stop_reason", record.stop_reason, "crashed, no success", "its agent was not started again")


def _one_try(where: str, earlier: Try) -> Iterator[str]:
    failure = FAILURES.get(earlier.cause)
    if failure is None:
        yield must_be(f"{where}.cause", earlier.cause, "a row of the failure table")
    elif failure.outcome != earlier.outcome:
        yield must_be(f"{where}.outcome", earlier.outcome, failure.outcome, f"the cause is {earlier.cause}")
    elif not failure.retry and not earlier.resumed:
        yield must_be(f"{where}.cause", earlier.cause, "one that may be retried", "the runner went on by itself")


def _moment(text: str) -> float:
    """Seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        **VERDICT_RULES,
        **{
            rule.__name__: rule for rule in (roles, usage, waiting, prices, totals, limits, place, seeds, phases, tries)
        },
    }
)
"""By name. A later rule may rely on what an earlier one has found sound."""
