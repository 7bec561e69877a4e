"""Why a cell succeeded or did not: each check with its evidence, claims beside measurements, limits, failure modes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.formats.failures import FAILURE_MODES, paper_names
from bench.formats.verdict import reached_text
from bench.report.improvement import headline_document, headline_lines
from bench.report.sheet import Sheet
from bench.report.why import reasons

if TYPE_CHECKING:
    from bench.formats.record import CheckResult, Record

_MOST_EVIDENCE = 12


@dataclass(frozen=True)
class LimitUse:
    """A limit, and how much of it the cell used."""

    name: str
    used: float | None
    """None: the record does not tell."""
    limit: float | None
    """None: there was no limit."""
    met: bool


def limit_uses(record: Record) -> list[LimitUse]:
    """The limits that agents meet, and those that this one has met."""
    spent = next((phase.seconds for phase in record.phases if phase.name == "agent"), 0.0)
    tokens = sum(role.tokens.total for role in record.usage)
    limits = record.limits
    found: list[tuple[str, str, float | None, float | None]] = [
        ("seconds", "time_limit", round(spent, 1), limits.agent_s),
        ("steps", "step_limit", record.steps, limits.steps),
        ("dollars", "cost_limit", record.cost_usd, limits.cost_usd),
        ("tokens", "token_limit", tokens, limits.tokens),
        ("memory_mb", "memory_limit", None, limits.memory_mb),
        ("processes", "process_limit", None, limits.processes),
        ("disk_mb", "disk_limit", None, limits.disk_mb),
        ("output_mb", "output_limit", None, limits.output_mb),
    ]
    calls = bool(record.usage)
    return [
        LimitUse(name, used, limit, key in record.limits_hit)
        for name, key, used, limit in found
        if key in record.limits_hit or name == "seconds" or (calls and used is not None)
    ]


def put_explanation(sheet: Sheet, record: Record) -> None:
    """Write what is known of a cell, the answer first."""
    arm = f" ({record.arm})" if record.arm else ""
    models = ", ".join(sorted(set(record.models.values()))) or "no model"
    verdict, fg = _verdict(record)
    sheet.title(f"{record.agent.id}{arm} on {record.case.id}, trial {record.trial}", verdict, fg=fg)
    sheet.line(f"{record.case.title}; {models}; profile {record.profile}; {_ended(record)}", dim=True)
    if found := reasons(record):
        sheet.title("why")
        for reason in found:
            sheet.reason(reason.name, reason.text, fg)
    if record.checks:
        sheet.title("checks")
        for check in record.checks:
            _check(sheet, check)
    if reached := reached_text(record):
        sheet.line(reached)
    _section(sheet, "claims against measurements", _claims(record))
    _section(sheet, "measured", [f"{it.name} {it.value:g} {it.unit}".rstrip() for it in record.metrics])
    _section(sheet, "improvement", headline_lines(record))
    if record.outcome == "graded":
        _limits(sheet, record)
    if record.flags:
        sheet.title("flags")
        for flag in record.flags:
            sheet.reason(flag.name, flag.evidence, "magenta")
    tries = [f"{it.at} {it.outcome} ({it.cause}): {it.message}" for it in record.tries]
    _section(sheet, "earlier tries", tries)


def explanation(record: Record) -> dict[str, object]:
    """What is known of a cell, for programs."""
    return {
        "cell": record.cell,
        "run": record.provenance.run,
        "outcome": record.outcome,
        "success": record.success,
        "score": record.score,
        "why": [str(it) for it in reasons(record)],
        "stop_reason": record.stop_reason,
        "cause": record.cause,
        "error": record.error,
        "checks": [{**it.model_dump(), "passed": it.passed} for it in record.checks],
        "claims": [it.model_dump() for it in record.claims],
        "metrics": [it.model_dump() for it in record.metrics],
        "headline": headline_document(record),
        "limits": [vars(it) for it in limit_uses(record)],
        "failure_modes": [
            {**it.model_dump(), "about": FAILURE_MODES.get(it.name, ""), "papers": paper_names(it.name)}
            for it in record.failure_modes
        ],
        "flags": [it.model_dump() for it in record.flags],
        "tries": [it.model_dump() for it in record.tries],
    }


def _verdict(record: Record) -> tuple[str, str]:
    if record.outcome != "graded":
        return f"{record.outcome} ({record.cause})", "magenta"
    said = "success" if record.success else "no success"
    return f"{said}, score {record.score:.2f}", "green" if record.success else "bright_red"


def _ended(record: Record) -> str:
    seconds = sum(phase.seconds for phase in record.phases)
    how = (record.stop_reason or record.outcome).replace("_", " ")
    return f"the agent's end: {how}; {seconds:.1f} s in all" if record.stop_reason else f"{seconds:.1f} s in all"


def _section(sheet: Sheet, title: str, lines: list[str], fg: str | None = None) -> None:
    if lines:
        sheet.title(title)
        for line in lines:
            sheet.line(line, fg=fg)


def _check(sheet: Sheet, check: CheckResult) -> None:
    kind = "guard" if check.guard else f"weight {check.weight:g}{', required' if check.required else ''}"
    value = "" if check.value in (0, 1) else f", {check.value:.2f} of 1"
    mark, fg = ("✓", "green") if check.passed else ("✗", "bright_red")
    sheet.line(f"{mark} {check.id}  ({kind}{value})", fg=fg)
    sheet.line(check.about, indent=4)
    if not check.passed:
        sheet.block("", check.message or "no message", _MOST_EVIDENCE, indent=4)


def _claims(record: Record) -> list[str]:
    found = []
    for it in record.claims:
        claimed = "not a number" if it.claimed is None else f"{it.claimed:g}"
        verdict = "overclaimed" if it.overclaim else "within the tolerance"
        found.append(f"{it.name}: claimed {claimed}, measured {it.measured:g} (tolerance {it.tolerance:g}): {verdict}")
    return found


def _limits(sheet: Sheet, record: Record) -> None:
    sheet.title("limits")
    for use in limit_uses(record):
        sheet.line(_limit_line(use), fg="bright_red" if use.met else None)


def _limit_line(use: LimitUse) -> str:
    name, spell = use.name.replace("_mb", " MB"), "${:,.4f}" if use.name == "dollars" else "{:,g}"
    used = spell.format(use.used) if use.used is not None else "unknown" if use.name == "dollars" else "all"
    most = "no limit" if use.limit is None else f"of {spell.format(use.limit)}"
    return f"{name}: {used}{',' if use.limit is None else ''} {most}{'; this limit was met' if use.met else ''}"
