"""The checks of a case, read from its files without running any of them.

The collector must know a case's checks, and must not import check.py, whose imports are heavy and may not be installed
there. So the facts in `@check(...)` have to be literals, which the case lint demands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bench.base.errors import UserError
from bench.formats.case import Case, CaseSpec
from bench.formats.scoring import OUTPUTS_ABOUT, OUTPUTS_CHECK, about_of

_DECORATOR = "check"
_REMEDY = "write weight, required and guard of each top-level @check(...) as plain numbers, True or False"


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
        used = isinstance(inner, ast.Name) and inner.id == _DECORATOR and id(inner) not in decorators
        if used or (
            isinstance(inner, ast.Attribute) and inner.attr == _DECORATOR and _is_judge(ast.unparse(inner.value))
        ):
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
