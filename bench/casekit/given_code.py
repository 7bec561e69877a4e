"""Which definitions of a given file are not as they were, for tasks that say what of it is to be written."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def altered(given: str, found: str, written: set[str]) -> list[str]:
    """Names of what `given` defines and `found` has in another form, but for those in `written`, as `Class.method`.

    given, found: Python sources. Syntax trees are compared without docstrings: form, comments, imports and further
    definitions are free. What is defined, assigned or imported again further down, under a condition too, counts as it
    is last.
    Neither source is executed, and what a statement changes by a call, such as `setattr`, is not seen.
    """
    try:
        now = dict(_definitions(ast.parse(found).body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["the whole file, which is no Python that can be read"]
    before = {name: form for name, form in _definitions(ast.parse(given).body) if not form.startswith("Import")}
    return [name for name, form in before.items() if name not in written and now.get(name) != form]


def _definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            name = f"{prefix}{statement.name}"
            yield name, " ".join(map(ast.dump, [*statement.bases, *statement.keywords, *statement.decorator_list]))
            yield from _definitions(statement.body, f"{name}.")
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{statement.name}", _form(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                for name in _stored(target):
                    yield f"{prefix}{name}", ast.dump(statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            for alias in statement.names:
                yield f"{prefix}{alias.asname or alias.name}", ast.dump(statement)
        elif isinstance(statement, _COMPOUND):
            yield from _definitions(_inside(statement), prefix)


def _stored(target: ast.expr) -> list[str]:
    """Of one name, or of several that are assigned together."""
    return [ast.unparse(it) for it in ast.walk(target) if isinstance(getattr(it, "ctx", None), ast.Store)]


def _inside(statement: ast.stmt) -> list[ast.stmt]:
    """All statements of its branches, in order."""
    own = [statement, *getattr(statement, "handlers", [])]
    return [it for part in own for name in ("body", "orelse", "finalbody") for it in getattr(part, name, [])]


def _form(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if ast.get_docstring(function, clean=False) is not None:
        function.body = function.body[1:]
    return ast.dump(function)
