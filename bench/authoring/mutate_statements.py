"""Kinds of mutants that change statements: removed, left early, run once, or without what surrounds them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence

from bench.authoring.mutate_values import Kind
from bench.authoring.source_edits import Edit, Function, Source

_TRAINING = ("zero_grad", "eval", "train", "backward", "step", "requires_grad_", "clip_grad_norm_", "copy_")


def training_call_removed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Without a call such as `zero_grad()`, `eval()` or `step()`."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name in _TRAINING:
            yield [source.replace(node, "pass")]


def call_removed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Without a call whose value is not used."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield [source.replace(node, "pass")]


def assignment_removed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Without an assignment to an attribute, an element, or a name that has a value already."""
    match node:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            yield [source.replace(node, "pass")]
        case ast.Assign(targets=[ast.Name(id=name)]):
            function = source.function_of(node)
            if function is not None and any(name == it for it, _ in _bound(source, function, before=node)):
                yield [source.replace(node, "pass")]


def _bound(source: Source, function: Function, before: ast.stmt) -> list[tuple[str, int]]:
    """Names that the function itself binds above a statement, its parameters first, with the position of each."""
    arguments = function.args
    names = [
        (it.arg, 0)
        for it in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if it.arg not in ("self", "cls")
    ]
    found = [
        (target.id, source.start(node))
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and source.function_of(node) is function
        for target in node.targets
        if isinstance(target, ast.Name) and source.end(node) <= source.start(before)
    ]
    return [*names, *sorted(found, key=lambda it: it[1])]


def context_removed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A block without its `with`, such as `torch.no_grad()`."""
    if isinstance(node, ast.With) and not any(item.optional_vars for item in node.items):
        start, end = source.start(node.items[0].context_expr), source.end(node.items[-1].context_expr)
        begin = source.start(node)
        yield [Edit(begin, begin + len("with"), "if"), Edit(start, end, "True")]


def decorator_removed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A function or class without one of its decorators."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        begins = [source.content.rfind(b"@", 0, source.start(it)) for it in node.decorator_list]
        for start, end in itertools.pairwise([*begins, source.start(node)]):
            yield [Edit(start, end, "")]


def early_return(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A function that returns before its last steps: with what it has by then."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    last = node.body[-1]
    wanted = last.value.id if isinstance(last, ast.Return) and isinstance(last.value, ast.Name) else ""
    for statement in node.body[1:-1] if wanted else node.body[1:]:
        if not wanted and isinstance(last, ast.Return):
            return
        known = any(wanted == name for name, _ in _bound(source, node, before=statement))
        line = source.new_line(statement)
        decorated = isinstance(statement, ast.FunctionDef | ast.ClassDef) and statement.decorator_list
        if (known or not wanted) and line is not None and not decorated:
            at = source.start(statement)
            yield [Edit(at, at, f"return {wanted}".rstrip() + line)]


def return_earlier(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """An earlier value is returned: of the variable that was bound last, or the first parameter."""
    function = source.function_of(node)
    if isinstance(node, ast.Return) and node.value is not None and function is not None:
        bound = _bound(source, function, before=node)
        for name in dict.fromkeys(name for name, _ in [*bound[-1:], *bound[:1]]):
            yield [source.replace(node.value, name)]


def loop_once(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A loop that ends after its first round."""
    if isinstance(node, ast.For | ast.While | ast.AsyncFor):
        line, end = source.new_line(node.body[0]), source.end(node.body[-1])
        yield [Edit(end, end, "; break" if line is None else f"{line}break")]


def jump_exchanged(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`continue` for `break`, and the other way round."""
    if isinstance(node, ast.Break | ast.Continue):
        yield [source.replace(node, "continue" if isinstance(node, ast.Break) else "break")]


def raise_removed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Without an error that is raised, or an assertion."""
    if isinstance(node, ast.Raise | ast.Assert):
        yield [source.replace(node, "pass")]


def handler_swallows(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A handler that does nothing, and one that catches everything."""
    if isinstance(node, ast.ExceptHandler):
        yield [Edit(source.start(node.body[0]), source.end(node.body[-1]), "pass")]
        if node.type is not None:
            yield [source.replace(node.type, "Exception")]


KINDS: Mapping[str, Kind] = {
    kind.__name__: kind
    for kind in (
        training_call_removed, call_removed, assignment_removed, context_removed, decorator_removed, early_return,
        return_earlier, loop_once, jump_exchanged, raise_removed, handler_swallows,
    )
}  # fmt: skip
