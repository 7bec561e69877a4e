"""Kinds of mutants that change how something is called or made: arguments, parameters, calls around a value."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from bench.authoring.mutate_values import Kind
from bench.authoring.source_edits import Edit, Source

_TWINS = (
    ("min", "max"), ("argmin", "argmax"), ("minimum", "maximum"), ("any", "all"), ("floor", "ceil"),
    ("clamp_min", "clamp_max"), ("mean", "sum"), ("zeros", "ones"), ("zeros_like", "ones_like"), ("tril", "triu"),
    ("sin", "cos"), ("append", "extend"), ("log", "log1p"), ("exp", "expm1"), ("std", "var"), ("median", "mean"),
    ("startswith", "endswith"), ("softmax", "log_softmax"), ("lower", "upper"), ("unsqueeze", "squeeze"),
    ("eval", "train"),
)  # fmt: skip
_TWIN_OF: Mapping[str, str] = {one: other for pair in _TWINS for one, other in (pair[::-1], pair)}
_SEEDERS = ("manual_seed", "seed", "default_rng", "Random", "RandomState", "PRNGKey", "manual_seed_all")
_SEEDS = ("seed", "generator", "random_state", "rng")
_SYMMETRIC = ("max", "min", "maximum", "minimum", "transpose", "swapaxes", "equal", "array_equal", "gcd", "hypot")
"""Their first two arguments may change places."""
_TRANSPOSED = ("T", "mT", "H", "mH")


def seed_ignored(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A fixed seed for the one that was given; a generator that is not handed on."""
    if not isinstance(node, ast.Call):
        return
    if _name_of(node) in _SEEDERS and len(node.args) == 1 and not isinstance(node.args[0], ast.Constant):
        yield [source.replace(node.args[0], "0")]
    for keyword in node.keywords:
        if keyword.arg in _SEEDS:
            yield [_without(source, node, keyword)]


def _name_of(node: ast.Call) -> str:
    """The last name of what is called."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def keyword_dropped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A call without one of its keyword arguments."""
    if isinstance(node, ast.Call):
        yield from ([_without(source, node, keyword)] for keyword in node.keywords if keyword.arg is not None)


def _without(source: Source, call: ast.Call, keyword: ast.keyword) -> Edit:
    """The edit that removes an argument with one of the commas beside it."""
    start, end = source.start(keyword), source.end(keyword)
    comma = source.content.rfind(b",", source.end(call.func), start)
    if call.args or call.keywords[0] is not keyword:
        return Edit(comma, end, "")
    after = re.match(rb"\s*,\s*", source.content[end : source.end(call)])
    return Edit(start, end + (after.end() if after else 0), "")


def arguments_swapped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Two neighbouring positional arguments, the one for the other."""
    if isinstance(node, ast.Call) and _name_of(node) not in _SYMMETRIC:
        yield from _swapped(source, node.args)


def elements_swapped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Two neighbouring elements of what is returned or assigned, the one for the other."""
    match node:
        case ast.Return(value=ast.Tuple(elts=elements)) | ast.Assign(value=ast.Tuple(elts=elements)):
            yield from _swapped(source, elements)
        case ast.Assign(targets=[ast.Tuple(elts=elements)]):
            yield from _swapped(source, elements)


def _swapped(source: Source, parts: Sequence[ast.expr]) -> Iterator[Sequence[Edit]]:
    for one, other in itertools.pairwise(parts):
        if not isinstance(one, ast.Starred) and not isinstance(other, ast.Starred):
            yield source.swap(one, other)


def parameters_swapped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Two neighbouring parameters with their defaults, the one for the other."""
    if not isinstance(node, ast.arguments):
        return
    named = [*node.posonlyargs, *node.args]
    defaults: list[ast.expr | None] = [*[None] * (len(named) - len(node.defaults)), *node.defaults]
    spans = [
        (source.start(name), source.end(default or name), default is None)
        for name, default in zip(named, defaults, strict=True)
        if name.arg not in ("self", "cls")
    ]
    for (start, end, needed), (later, last, needed_too) in itertools.pairwise(spans):
        if needed == needed_too:
            yield [Edit(start, end, source.between(later, last)), Edit(later, last, source.between(start, end))]


def wrapper_dropped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`x` for `sorted(x)` or `F.relu(x)`; calls that make an object are left alone."""
    match node:
        case ast.Call(func=func, args=[first, *_]) if not isinstance(first, ast.Starred):
            function = isinstance(func, ast.Name) or _root(func) in source.modules
            if function and _name_of(node)[:1].islower() and not _is_statement(source, node):
                yield [source.replace(node, source.operand(first))]


def method_dropped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`x` for `x.detach()` or `x.T`."""
    match node:
        case ast.Call(func=ast.Attribute(value=value)) if not _is_statement(source, node):
            root = _root(value)
            own = isinstance(value, ast.Name) and root in ("self", "cls")
            if not own and root not in source.modules:
                yield [source.replace(node, source.text(value))]
        case ast.Attribute(value=value, attr=attr) if attr in _TRANSPOSED:
            yield [source.replace(node, source.text(value))]


def _root(node: ast.AST) -> str:
    """The name at the beginning of a chain of attributes; empty where it begins with something else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_statement(source: Source, node: ast.AST) -> bool:
    return isinstance(source.parents[node], ast.Expr)


def twin_exchanged(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`max` for `min`, `ones` for `zeros`: what is called, by the other of its pair."""
    if isinstance(node, ast.Call) and (name := _name_of(node)) in _TWIN_OF:
        end = source.end(node.func)
        yield [Edit(end - len(name.encode()), end, _TWIN_OF[name])]


KINDS: Mapping[str, Kind] = {
    kind.__name__: kind
    for kind in (
        seed_ignored, keyword_dropped, arguments_swapped, parameters_swapped, elements_swapped, wrapper_dropped,
        method_dropped, twin_exchanged,
    )
}  # fmt: skip
