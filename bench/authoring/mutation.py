"""Mutants of Python files: every change of every kind in one place, and a drawn part of them."""

from __future__ import annotations

import ast
import difflib
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bench.authoring import mutate_calls, mutate_statements, mutate_values
from bench.authoring.mutate_values import Kind
from bench.authoring.source_edits import Source, compiled

KINDS: Mapping[str, Kind] = {**mutate_calls.KINDS, **mutate_statements.KINDS, **mutate_values.KINDS}
"""In the order in which they are asked: the first that makes a mutant gives it its name."""
_TYPES = ("annotation", "returns", "type_comment", "type_params")


@dataclass(frozen=True)
class Mutant:
    """A file that is different in one place."""

    kind: str
    path: str
    line: int
    function: str
    """Its dotted name; empty outside of functions and classes."""
    given: bool
    """The starter has this function word for word."""
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)
    name: str = ""
    """By which it can be a wrong answer."""

    @property
    def diff(self) -> str:
        """The place of the change, as a unified diff."""
        old, new = (it.decode("utf-8").splitlines() for it in (self.before, self.after))
        return "\n".join(difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}", lineterm=""))


def mutants_of(files: Mapping[str, bytes], starter: Mapping[str, bytes]) -> list[Mutant]:
    """All mutants of the Python files, in a fixed order; each compiles, and no two to the same code.

    starter: the files that the agent is given. A file that is not UTF-8 Python has no mutants.
    """
    found: list[Mutant] = []
    for path, content in sorted(files.items()):
        if path.endswith(".py"):
            found += _mutants(path, content, starter.get(path, b""))
    used: Counter[str] = Counter()
    return [_named(mutant, used) for mutant in found]


def _named(mutant: Mutant, used: Counter[str]) -> Mutant:
    stem = f"{mutant.kind}_line_{mutant.line}"
    used[stem] += 1
    name = stem if used[stem] == 1 else f"{stem}_{used[stem]}"
    return replace(mutant, name=name)


def _mutants(path: str, content: bytes, given: bytes) -> Iterator[Mutant]:
    try:
        source = Source(content)
    except (SyntaxError, ValueError):
        return
    seen = {compiled(content), None}
    same = dict(_functions(source).items() & _functions_of(given).items())
    nodes = list(_nodes(source.tree))
    for kind, make in KINDS.items():
        for node in nodes:
            for edits in make(source, node):
                after = source.edited(edits)
                code = compiled(after)
                if code not in seen:
                    seen.add(code)
                    line = content.count(b"\n", 0, min(edit.start for edit in edits)) + 1
                    function = source.place_of(node)
                    yield Mutant(kind, path, line, function, function in same, content, after)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but types and docstrings, and but what is inside of f-strings, where positions differ by version."""
    yield node
    if isinstance(node, ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and name not in _TYPES and not text:
                yield from _nodes(child)


def _functions(source: Source) -> dict[str, str]:
    """The text of each function by its dotted name."""
    return {
        source.place_of(node): source.text(node)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _functions_of(content: bytes) -> dict[str, str]:
    try:
        return _functions(Source(content))
    except (SyntaxError, ValueError):
        return {}


def draw(mutants: Sequence[Mutant], count: int, seed: str) -> list[Mutant]:
    """At most `count` of the mutants: of each kind about as many, and of those about as many in each function."""
    generator = random.Random(f"mutants {seed}")
    # What comes first among equals is drawn once, so that the rest of the choice is the same for any count.
    left = generator.sample(mutants, len(mutants))
    kinds: Counter[str] = Counter()
    places: Counter[tuple[str, str]] = Counter()
    drawn: list[Mutant] = []
    while left and len(drawn) < count:
        best = min(left, key=lambda it: (kinds[it.kind], places[it.path, it.function]))
        left.remove(best)
        drawn.append(best)
        kinds[best.kind] += 1
        places[best.path, best.function] += 1
    return drawn
