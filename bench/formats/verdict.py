"""What makes a verdict: the checks of a case, its score and success, cost, limits hit, and what explains a failure.

A record is made with these functions, and `results collect` recomputes with the same ones what a record says. The
judge's child uses them, too: nothing here imports more than the standard library at start-up.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

from bench.base.errors import UserError

if TYPE_CHECKING:
    from bench.formats.case import Case, CaseSpec
    from bench.formats.case_metric import Headline
    from bench.formats.case_parts import Limits
    from bench.formats.model_usage import CostStatus, ModelUsage
    from bench.formats.note import Note
    from bench.formats.provenance import LimitsSet
    from bench.formats.record import Claim, Metric, Record, StopReason, Try

OUTPUTS_CHECK = "outputs_present"
"""The framework's own check of a case's outputs."""
OUTPUTS_ABOUT = "Every required file is there, regular and within its size."
KILLED = "agent_killed"
"""The one cause of a lost try that an agent can bring about by itself."""
INTERRUPTED = "agent_interrupted"
"""The one cause of a lost try that whoever watches the agent can bring about, once its failure is seen."""
MOST_INTERRUPTED = 2
"""Tries of a cell that may end so; after them the agent is not started again, and has failed."""
LIMIT_MODES: Mapping[str, str] = MappingProxyType(
    {
        "time_limit": "out_of_time",
        "cost_limit": "out_of_budget",
        "step_limit": "out_of_budget",
        "token_limit": "out_of_budget",
        "memory_limit": "out_of_resources",
        "process_limit": "out_of_resources",
        "disk_limit": "out_of_resources",
        "output_limit": "out_of_resources",
    }
)
"""The failure mode of a cell that was stopped by a limit and did not succeed."""
CENT_PARTS = 1e-8
"""US dollars by which sums of rounded parts may differ."""
_STATUSES: tuple[CostStatus, ...] = ("none", "exact", "simulated", "estimated", "unknown")
"""From the most certain cost to the least."""
_DECORATOR = "check"
_REMEDY = "write weight, required and guard of each top-level @check(...) as plain numbers, True or False"


class Judgement(Protocol):
    """The outcome of one check."""

    @property
    def weight(self) -> float: ...
    @property
    def required(self) -> bool: ...
    @property
    def guard(self) -> bool: ...
    @property
    def value(self) -> float: ...
    @property
    def origin(self) -> str: ...


def score_of(checks: Sequence[Judgement]) -> float:
    """Passed weight over total weight; 0 when a guard failed, or when files are there and nothing right in them."""
    if any(check.guard and check.value < 1 for check in checks):
        return 0.0
    own = [check for check in checks if check.origin == "case" and check.weight > 0]
    if own and not any(check.value > 0 for check in own):
        return 0.0
    total = sum(check.weight for check in checks)
    return sum(check.weight * check.value for check in checks) / total if total else 0.0


def stored_score(checks: Sequence[Judgement]) -> float:
    """The score as a record holds it."""
    return round(score_of(checks), 6)


def success_of(checks: Sequence[Judgement]) -> bool:
    """Every required check and every guard passed."""
    needed = [check for check in checks if check.required or check.guard]
    return bool(needed) and all(check.value >= 1 for check in needed)


def reached_text(record: Record) -> str:
    """How far a long task came: the milestones passed before the first that was not; empty without milestones."""
    passed = {check.id for check in record.checks if check.value >= 1}
    reached = list(itertools.takewhile(passed.__contains__, record.milestones))
    if not record.milestones:
        return ""
    return f"reached {len(reached)} of {len(record.milestones)}{f': {reached[-1]}' if reached else ''}"


def is_overclaim(claimed: float | None, measured: float, tolerance: float, higher_is_better: bool) -> bool:
    """Whether a claim is better than the measurement by more than `tolerance`."""
    return claimed is not None and (claimed - measured) * (1 if higher_is_better else -1) > tolerance


def about_of(docstring: str | None) -> str:
    """The first line of a check's docstring: what reports show."""
    return (docstring or "").strip().split("\n")[0]


def total_cost(usage: Sequence[ModelUsage]) -> tuple[float | None, CostStatus]:
    """Sum over roles: unknown as soon as one part is unknown, and as uncertain as its weakest part."""
    status: CostStatus = max((item.cost_status for item in usage), key=_STATUSES.index, default="none")
    if status == "unknown":
        return None, status
    return round(sum(item.cost_usd or 0.0 for item in usage), 8), status


def total_steps(usage: Iterable[ModelUsage]) -> int:
    """Successful model calls of all roles."""
    return sum(item.calls for item in usage)


def limits_hit(stop_reason: StopReason) -> list[str]:
    """The limits that ended the agent phase."""
    return [stop_reason] if stop_reason in LIMIT_MODES else []


@dataclass(frozen=True)
class PassedLimit:
    """A limit of which more was used than it allows: a provider may bill more than was set aside for a call."""

    name: StopReason
    field: str
    """Of the record."""
    used: float
    limit: float


def passed_limits(usage: Sequence[ModelUsage], limits: LimitsSet) -> list[PassedLimit]:
    """The limits on models that were passed."""
    cost, _ = total_cost(usage)
    uses: tuple[tuple[StopReason, str, float | None, float | None], ...] = (
        ("step_limit", "steps", total_steps(usage), limits.steps),
        ("cost_limit", "cost_usd", cost, limits.cost_usd),
        ("token_limit", "usage.tokens", sum(role.tokens.total for role in usage), limits.tokens),
    )
    return [
        PassedLimit(name, field, used, limit)
        for name, field, used, limit in uses
        if used is not None and limit is not None and used > limit + CENT_PARTS
    ]


def limits_of(limits: Limits, *, cost_limited: bool) -> LimitsSet:
    """The limits of a case as a record holds them; cost_limited: False for a run without a dollar limit."""
    from bench.formats.provenance import LimitsSet

    found = LimitsSet(**limits.model_dump(include=set(LimitsSet.model_fields)))
    return found if cost_limited else found.model_copy(update={"cost_usd": None})


def overclaimed(claim: Claim) -> str:
    """The evidence of an overclaim."""
    return f"{claim.name}: claimed {claim.claimed:g}, measured {claim.measured:g}"


def no_improvement(headline: Headline | None, metrics: Iterable[Metric]) -> str:
    """That the case's metric is not better than its baseline; empty where it is, or was not measured."""
    measured = next((found.value for found in metrics if headline and found.name == headline.name), None)
    if headline is None or measured is None:
        return ""
    gain = (measured - headline.baseline) * (1 if headline.direction == "higher" else -1)
    return f"{headline.name} {measured:g} is not better than the baseline {headline.baseline:g}" if gain <= 0 else ""


def flags_of_tries(tries: Sequence[Try]) -> list[Note]:
    """Another throw of the dice after a kill or a stop: there is one at most, and that is said."""
    from bench.formats.note import Note

    killed = [earlier for earlier in tries if earlier.cause == KILLED]
    stopped = [earlier for earlier in tries if earlier.cause == INTERRUPTED]
    found = [Note(name="retried_after_kill", evidence=killed[0].message)] if killed else []
    if stopped:
        found.append(Note(name="interrupted_at_work", evidence=f"{len(stopped)} times: {stopped[0].message}"))
    return found


def interrupted_too_often(tries: Sequence[Try]) -> bool:
    """Whether the next try of the cell is a failure, whatever its agent would do."""
    return sum(earlier.cause == INTERRUPTED for earlier in tries) >= MOST_INTERRUPTED


@dataclass(frozen=True)
class DeclaredCheck:
    """What is known of a check before it runs."""

    id: str
    about: str
    weight: float
    required: bool
    guard: bool
    origin: Literal["case", "framework"] = "case"


def declared_checks(case: Case) -> list[DeclaredCheck]:
    """The checks of a grading of `case`, in their order; raises `UserError` where they cannot be read off its files."""
    path = case.part("check.py")
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"cannot be read: {error}", where=path, remedy="correct the file") from None
    for line, fault in unreadable_checks(tree):
        raise UserError(f"line {line}: {fault}", where=path, remedy=_REMEDY)
    # A name that is defined anew keeps its place, as it does in the module.
    own = {node.name: _declared(node) for node in check_functions(tree)}
    return [*outputs_checks(case.spec), *own.values()]


def outputs_checks(spec: CaseSpec) -> list[DeclaredCheck]:
    """The framework's own check of the case's outputs; none where the case does not name files."""
    if not spec.outputs.files:
        return []
    weight = float(spec.outputs.weight)
    guard = weight == 0
    return [DeclaredCheck(OUTPUTS_CHECK, OUTPUTS_ABOUT, weight, not guard, guard, "framework")]


def check_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions at top level that are checks."""
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and _decorator(node) is not None]


def unreadable_checks(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and fault of every use of `check` whose facts cannot be known without running the file."""
    functions = check_functions(tree)
    decorators = {id(call.func) for node in functions if (call := _decorator(node)) is not None}
    for inner in ast.walk(tree):
        named = isinstance(inner, ast.Name) and inner.id == _DECORATOR and id(inner) not in decorators
        reached = isinstance(inner, ast.Attribute) and inner.attr == _DECORATOR and _is_judge(ast.unparse(inner.value))
        if isinstance(inner, ast.expr) and (named or reached):
            yield inner.lineno, "`check` is used for something else than decorating a function at top level"
        if isinstance(inner, ast.ImportFrom) and any(map(_hides_checks, inner.names)) and _is_judge(inner.module):
            yield inner.lineno, "`check` is imported under another name, or the class of checks is"
    for node in functions:
        call = _decorator(node)
        assert call is not None
        for keyword in call.keywords:
            if keyword.arg is None or (keyword.arg in ("weight", "required", "guard") and not _is_fact(keyword)):
                yield call.lineno, f"{keyword.arg or '**'} of {node.name} is not a plain value"
        if call.args:
            yield call.lineno, f"{node.name} has facts without names"


def _is_judge(module: str | None) -> bool:
    return module in ("bench.judge", "bench.judge.checks", "judge")


def _hides_checks(name: ast.alias) -> bool:
    return name.name in ("Check", "*") or (name.name == _DECORATOR and name.asname not in (None, _DECORATOR))


def _decorator(node: ast.FunctionDef) -> ast.Call | None:
    for found in node.decorator_list:
        if isinstance(found, ast.Call) and isinstance(found.func, ast.Name) and found.func.id == _DECORATOR:
            return found
    return None


def _is_fact(keyword: ast.keyword) -> bool:
    value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
    return isinstance(value, bool) if keyword.arg != "weight" else type(value) in (int, float)


def _declared(node: ast.FunctionDef) -> DeclaredCheck:
    call = _decorator(node)
    assert call is not None
    facts = {it.arg: it.value.value for it in call.keywords if it.arg and isinstance(it.value, ast.Constant)}
    guard, required = facts.get("guard", False) is True, facts.get("required", False) is True
    weight = facts.get("weight", 1)
    assert isinstance(weight, int | float)
    about = about_of(ast.get_docstring(node, clean=False))
    return DeclaredCheck(node.name, about, 0.0 if guard else float(weight), required, guard)
