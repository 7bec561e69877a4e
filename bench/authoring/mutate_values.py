"""Kinds of mutants that change a value: constants, defaults, bounds, axes, types, operators and conditions.

A kind takes a file and one of its nodes, and yields the edits of each mutant that it makes there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeGuard

from bench.authoring.source_edits import Edit, Source

Kind = Callable[[Source, ast.AST], Iterator[Sequence[Edit]]]
_FLIPPED: Mapping[str, str] = {
    "<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
_MOVED: Mapping[str, str] = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OTHER_SIGN: Mapping[str, str] = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "//", "**": "*"}
_SIGNS: Mapping[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.And: "and", ast.Or: "or",
}  # fmt: skip
_AXES = ("axis", "dim", "dims")
_TYPES: Mapping[str, str] = {
    "float64": "float32", "float32": "float64", "float16": "float32", "bfloat16": "float32", "int64": "int32",
    "int32": "int64", "uint8": "int8", "long": "int", "double": "float", "float": "double", "half": "float",
}  # fmt: skip


def boundary_moved(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`<` for `<=`."""
    yield from _compared(source, node, _MOVED)


def comparison_flipped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`<` for `>=`, `in` for `not in`."""
    yield from _compared(source, node, _FLIPPED)


def _compared(source: Source, node: ast.AST, other: Mapping[str, str]) -> Iterator[Sequence[Edit]]:
    if isinstance(node, ast.Compare):
        terms = [node.left, *node.comparators]
        for left, right, sign in zip(terms, terms[1:], map(_sign, node.ops), strict=False):
            if sign in other:
                yield from _signed(source, left, right, sign, other[sign])


def _sign(operator: ast.AST) -> str:
    return _SIGNS.get(type(operator), "")


def _signed(source: Source, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Sequence[Edit]]:
    for edit in source.within(source.end(left), source.start(right), old, new):
        yield [edit]


def logic_exchanged(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`or` for `and`."""
    if isinstance(node, ast.BoolOp):
        sign = _sign(node.op)
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from _signed(source, left, right, sign, "or" if sign == "and" else "and")


def arithmetic_exchanged(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`-` for `+`, `/` for `*`, also in `+=`; the operands of `@` the other way round."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        yield [
            source.replace(node.left, source.operand(node.right)),
            source.replace(node.right, source.operand(node.left)),
        ]
    elif isinstance(node, ast.BinOp) and _sign(node.op) in _OTHER_SIGN:
        yield from _signed(source, node.left, node.right, _sign(node.op), _OTHER_SIGN[_sign(node.op)])
    elif isinstance(node, ast.AugAssign) and _sign(node.op) in _OTHER_SIGN:
        yield from _signed(source, node.target, node.value, f"{_sign(node.op)}=", f"{_OTHER_SIGN[_sign(node.op)]}=")


def accumulation_dropped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`=` for `+=`."""
    if isinstance(node, ast.AugAssign) and _sign(node.op):
        yield from _signed(source, node.target, node.value, f"{_sign(node.op)}=", "=")


def operand_dropped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`a` for `a + b`; `b`, too, where it stands for itself."""
    if isinstance(node, ast.BoolOp):
        for kept in node.values if len(node.values) == 2 else ():
            yield [source.replace(node, source.operand(kept))]
    elif isinstance(node, ast.BinOp):
        yield [source.replace(node, source.operand(node.left))]
        if isinstance(node.op, ast.Add | ast.Mult | ast.MatMult):
            yield [source.replace(node, source.operand(node.right))]


def sign_dropped(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`x` for `-x`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield [source.replace(node, source.operand(node.operand))]


def negated(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`not x` for the condition `x`, and `x` for `not x`; comparisons have a kind of their own."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield [source.replace(node, source.operand(node.operand))]
    for test in _tests(node):
        if not isinstance(test, ast.Compare | ast.UnaryOp):
            yield [source.replace(test, f"not {source.operand(test)}")]


def condition_fixed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A condition that always holds, or never; a loop is never made endless."""
    for test in _tests(node):
        for value in ("False",) if isinstance(node, ast.While) else ("True", "False"):
            yield [source.replace(test, value)]


def _tests(node: ast.AST) -> Sequence[ast.expr]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return [node.test]
    return node.ifs if isinstance(node, ast.comprehension) else []


def default_changed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Another default of a parameter."""
    if isinstance(node, ast.arguments):
        for value in (*node.defaults, *filter(None, node.kw_defaults)):
            for text in [*_others(value), "None"][:1]:
                yield [source.replace(value, text)]


def _others(value: ast.expr) -> Iterator[str]:
    """Texts of constants near this one: the nearest first."""
    match value:
        case ast.Constant(value=bool(it)):
            yield repr(not it)
        case ast.Constant(value=int(it)):
            yield from (repr(it + 1), repr(it - 1))
        case ast.Constant(value=float(it)) if it:
            # As a person would write it, and not 1.0000000000000002e-06.
            yield from (repr(float(f"{scaled:.12g}")) for scaled in (it * 10, it / 10))
        case ast.Constant(value=str(it)):
            yield repr(f"{it}_")
        case ast.Constant(value=None):
            yield "0"


def flag_exchanged(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`False` for `True`, such as of `reverse`, `keepdim` or `shuffle`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield [source.replace(node, text) for text in _others(node)]


def constant_off_by_one(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A whole number that is one more or one less."""
    if _is_number(node) and isinstance(node.value, int):
        yield from ([source.replace(node, text)] for text in _others(node))


def constant_scaled(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A number that is ten times or a tenth; twice of a whole one."""
    if _is_number(node) and isinstance(node.value, float):
        yield from ([source.replace(node, text)] for text in _others(node))
    elif _is_number(node) and isinstance(node.value, int) and abs(node.value) > 1:
        yield [source.replace(node, repr(2 * node.value))]


def constant_negated(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """`-1` for `1`."""
    if _is_number(node) and node.value:
        yield [source.replace(node, f"-{source.text(node)}")]


def _is_number(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def string_changed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A name or key with one more character; what is printed or raised is left alone."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _is_message(source, node):
        yield [source.replace(node, text) for text in _others(node)]


def _is_message(source: Source, node: ast.AST) -> bool:
    around: ast.AST | None = node
    while around is not None and not isinstance(around, ast.stmt):
        if isinstance(around, ast.Call) and isinstance(around.func, ast.Name) and around.func.id == "print":
            return True
        around = source.parents.get(around)
    return isinstance(around, ast.Raise | ast.Assert)


def axis_changed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Another `axis` or `dim`."""
    if isinstance(node, ast.keyword) and node.arg in _AXES and source.text(node.value).lstrip("-").isdecimal():
        axis = int(source.text(node.value))
        yield from ([source.replace(node.value, str(it))] for it in ((1, -1) if axis == 0 else (0, axis - 1)))


def dtype_changed(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """Another type of numbers, by attribute, method or name."""
    if isinstance(node, ast.Attribute) and node.attr in _TYPES:
        end = source.end(node)
        yield [Edit(end - len(node.attr), end, _TYPES[node.attr])]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _TYPES:
        yield [source.replace(node, repr(_TYPES[node.value]))]


def slice_bound(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A slice that begins or ends elsewhere, or without a bound."""
    if isinstance(node, ast.Slice):
        for bound, change in ((node.lower, "+ 1"), (node.upper, "- 1")):
            if bound is not None:
                yield [source.replace(bound, f"{source.operand(bound)} {change}")]
                yield [source.replace(bound, "")]
        if node.lower is None and node.upper is not None:
            yield [Edit(source.start(node), source.start(node), "1")]


def range_bound(source: Source, node: ast.AST) -> Iterator[Sequence[Edit]]:
    """A range that ends or begins one earlier or later."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        stop = node.args[min(1, len(node.args) - 1)]
        changed = [(stop, "- 1"), (stop, "+ 1"), *([(node.args[0], "+ 1")] if len(node.args) > 1 else [])]
        yield from ([source.replace(bound, f"{source.operand(bound)} {change}")] for bound, change in changed)


KINDS: Mapping[str, Kind] = {
    kind.__name__: kind
    for kind in (
        default_changed, axis_changed, slice_bound, range_bound, dtype_changed, flag_exchanged, boundary_moved,
        comparison_flipped, negated, condition_fixed, logic_exchanged, accumulation_dropped, arithmetic_exchanged,
        operand_dropped, sign_dropped, constant_off_by_one, constant_scaled, constant_negated, string_changed,
    )
}  # fmt: skip
